//! The rule by pressure: steps while a tenant waits for the processor, half steps back while it does not.

mod rig;

use gyre_broker::pressure::{EASED, LEAST, PRESSED, Pressure, STEP};
use gyre_broker::{Goal, Observation, RESOURCES, Reason, Resource, Tenant, TenantId, Window};

fn tenant(id: u64, goal: Goal, part: f64, stalled: f64) -> Tenant<'static> {
    let seen = Observation { stalled, ..Observation::default() };
    let parts = [part; RESOURCES];
    Tenant { id: TenantId(id), goal, share: parts, granted: parts, limit: rig::UNLIMITED, seen, ..Tenant::default() }
}

/// The part that a tenant with a goal gets after a window, beside batch work with a share of 10 %.
fn next(part: f64, stalled: f64) -> f64 {
    let tenants = [tenant(0, Goal::Soon, part, stalled), tenant(1, Goal::None, 0.1, 1.0)];
    let window = Window { length_ns: 1_000_000_000, movable: rig::cpu(), tenants: &tenants, ..Window::default() };
    let plan = rig::decide(&mut Pressure, &window);
    let (led, other) = (plan.part(TenantId(0), Resource::Cpu), plan.part(TenantId(1), Resource::Cpu));
    is(other, (1.0 - led).min(0.1));
    led
}

fn is(part: f64, wanted: f64) {
    assert!((part - wanted).abs() < 1e-6, "{part}, expected {wanted}");
}

#[test]
fn steps_follow_the_time_that_was_waited() {
    is(next(0.5, PRESSED + 0.01), 0.5 + STEP);
    is(next(0.5, EASED - 0.01), 0.5 - STEP / 2.0);
    is(next(0.5, f64::midpoint(PRESSED, EASED)), 0.5);
}

#[test]
fn parts_stay_above_the_least_and_leave_it_to_the_others() {
    is(next(LEAST, 0.0), LEAST);
    is(next(0.89, 1.0), 0.94);
    is(next(0.94, 1.0), 1.0 - LEAST);
}

#[test]
fn a_part_that_suffices_is_found_and_kept() {
    // Work of 60 % of a core that stalls for what its part lacks of 80 %.
    let mut part = 0.2;
    for _ in 0..40 {
        part = next(part, (0.8 - part).max(0.0));
    }
    assert!((0.65..=0.78).contains(&part), "{part}");
}

#[test]
fn each_step_says_why() {
    for (reason, word) in [
        (Reason::Pressed { stalled: 0.4 }, "takes a step"),
        (Reason::Eased { stalled: 0.0 }, "gives half a step back"),
        (Reason::Borne { stalled: 0.07 }, "between the bounds"),
    ] {
        assert!(reason.to_string().contains(word), "{reason}");
    }
}
