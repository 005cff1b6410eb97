//! Rig of the tests: a seeded stream of numbers and a window with a plan.
#![allow(dead_code)]

use std::f64::consts::TAU;

use gyre_broker::{Parts, Plan, Policy, RESOURCES, Resource, ResourceSet, Tenant, Window};

/// A seeded stream of numbers (SplitMix64).
pub struct Seed(pub u64);

impl Seed {
    /// A number from 0 up to 1.
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number with the mean 0 and the deviation 1.
    pub fn gauss(&mut self) -> f64 {
        let length = (-2.0 * self.unit().max(1e-300).ln()).sqrt();
        length * (TAU * self.unit()).cos()
    }
}

/// No limit on any resource.
pub const UNLIMITED: Parts = [1.0; RESOURCES];

/// Lets a policy decide about a window, and checks what holds for every plan.
pub fn decide(policy: &mut dyn Policy, window: &Window<'_>) -> Plan {
    let mut plan = Plan::new(window).expect("the window is sound");
    policy.decide(window, &mut plan);
    check(&plan, window.tenants);
    plan
}

/// Checks what holds for every plan.
pub fn check(plan: &Plan, tenants: &[Tenant<'_>]) {
    for resource in Resource::ALL {
        assert!(plan.sum(resource) <= 1.0, "{}: {}", resource.name(), plan.sum(resource));
    }
    for (knob, decision) in plan.iter() {
        let tenant = tenants.iter().find(|tenant| tenant.id == knob.tenant).expect("a plan holds the window's tenants");
        let limit = tenant.limit[knob.resource.index()];
        let most = if limit.is_nan() { 0.0 } else { limit.clamp(0.0, 1.0) };
        assert!((0.0..=most).contains(&decision.part), "{knob:?}: {decision:?}");
        let text = decision.to_string();
        assert!(!text.contains("NaN") && !text.contains("inf") && !text.contains("--"), "{text}");
    }
}

/// The set of the CPU alone.
pub fn cpu() -> ResourceSet {
    ResourceSet::of(&[Resource::Cpu])
}
