//! The native calls of CPU aggregates: numbers, arguments and errors are in `gyre_contract::native`.
//!
//! [`gyre_engine::Aggregate`] is the mechanism. An aggregate belongs to the process whose thread made it, and ends with it
//! (`processes.rs`). The caller's own thread joins; it goes to its new queue on its way back to the program.

use crate::kernel::Kernel;
use alloc::sync::Arc;
use gyre_contract::native::{
    AGGREGATE, AGGREGATE_CLOSE, AGGREGATE_DEADLINES, AGGREGATE_FIGURES, AGGREGATE_JOIN, AGGREGATE_NS_MAX,
    AGGREGATE_NS_MIN, AGGREGATE_PRIORITY, AGGREGATE_ROUND_ROBIN, AGGREGATE_SAME, AGGREGATE_SHARE_MAX, AGGREGATE_SHARES,
    AggregateFigures,
};
use gyre_engine::{Aggregate, Engine, Standing, ThreadPolicy};
use gyre_flow::Group;
use gyre_linux::{Arguments, Errno, Outcome, Thread};
use gyre_schedulers::ClientParams;
use zerocopy::IntoBytes as _;

/// Serves a call from `AGGREGATE` to `AGGREGATE_CLOSE`; `None` for another number.
pub async fn call(kernel: &Kernel, thread: &Thread, number: u64, a: Arguments) -> Option<Outcome> {
    let engine = kernel.base.engine;
    Some(match number {
        AGGREGATE if a.word(0) == 0 => open(engine, thread, a),
        AGGREGATE => change(engine, thread, a),
        AGGREGATE_JOIN => join(engine, thread, a),
        AGGREGATE_FIGURES => figures(engine, thread, a).await,
        AGGREGATE_CLOSE => close(engine, thread, a),
        _ => return None,
    })
}

/// Returns the group in which flows stand that the caller opens.
pub fn group(engine: &Engine) -> Option<Group> {
    engine.standing_of_running().map(|standing| group_of(&standing.aggregate))
}

fn group_of(aggregate: &Aggregate) -> Group {
    Group { number: aggregate.number(), share: aggregate.share() }
}

fn open(engine: &Engine, thread: &Thread, a: Arguments) -> Outcome {
    let share = share_of(a.word(1))?;
    let policy = policy_of(a.word(2)).ok_or(Errno::EINVAL)?;
    let aggregate = engine.open_aggregate(thread.process().activity(), share, policy).map_err(|_| Errno::EAGAIN)?;
    Ok(aggregate.number().into())
}

fn change(engine: &'static Engine, thread: &Thread, a: Arguments) -> Outcome {
    let aggregate = find(engine, thread, a)?;
    let share = share_of(a.word(1))?;
    if a.word(2) != AGGREGATE_SAME && policy_of(a.word(2)) != Some(aggregate.policy()) {
        return Err(Errno::EINVAL);
    }
    engine.set_aggregate_share(&aggregate, share);
    thread.process().flow_shares.set_group(group_of(&aggregate));
    Ok(aggregate.number().into())
}

fn join(engine: &Engine, thread: &Thread, a: Arguments) -> Outcome {
    if a.word(0) == 0 {
        engine.join_running(None);
        return Ok(0);
    }
    let aggregate = find(engine, thread, a)?;
    let params = params(engine, aggregate.policy(), a)?;
    engine.join_running(Some(Arc::new(Standing { aggregate, params })));
    Ok(0)
}

/// Returns what the aggregate's policy is told of the thread.
///
/// # Errors
/// EINVAL: a word that its policy does not know.
fn params(engine: &Engine, policy: ThreadPolicy, a: Arguments) -> Result<ClientParams, Errno> {
    let (first, second) = (a.word(1), a.word(2));
    let known = match policy {
        ThreadPolicy::RoundRobin if (first, second) == (0, 0) => ClientParams::default(),
        ThreadPolicy::Priority if second == 0 => ClientParams::urgent(u8::try_from(first).map_err(|_| Errno::EINVAL)?),
        ThreadPolicy::Shares if second == 0 => ClientParams::weighted(share_of(first)?),
        ThreadPolicy::Deadlines if AGGREGATE_NS_MIN <= first && first <= second && second <= AGGREGATE_NS_MAX => {
            ClientParams { burst: engine.cycles(first).max(1), period_ns: second, ..ClientParams::default() }
        }
        _ => return Err(Errno::EINVAL),
    };
    Ok(known)
}

async fn figures(engine: &Engine, thread: &Thread, a: Arguments) -> Outcome {
    let aggregate = find(engine, thread, a)?;
    let figures = AggregateFigures {
        used_ns: engine.ns(aggregate.used_cycles()),
        share: aggregate.share(),
        policy: number_of(aggregate.policy()) as u32,
        threads: aggregate.threads(),
        reserved: 0,
    };
    thread.copy_out(a.word(1), figures.as_bytes()).await?;
    Ok(0)
}

fn close(engine: &Engine, thread: &Thread, a: Arguments) -> Outcome {
    engine.close_aggregate(&find(engine, thread, a)?).map_err(|_| Errno::EBUSY)?;
    Ok(0)
}

fn find(engine: &Engine, thread: &Thread, a: Arguments) -> Result<Arc<Aggregate>, Errno> {
    let number = u32::try_from(a.word(0)).map_err(|_| Errno::ENOENT)?;
    engine.find_aggregate(thread.process().activity(), number).ok_or(Errno::ENOENT)
}

fn share_of(word: u64) -> Result<u32, Errno> {
    let share = u32::try_from(word).ok().filter(|_| (1..=AGGREGATE_SHARE_MAX).contains(&word));
    share.ok_or(Errno::EINVAL)
}

fn policy_of(word: u64) -> Option<ThreadPolicy> {
    Some(match word {
        AGGREGATE_ROUND_ROBIN => ThreadPolicy::RoundRobin,
        AGGREGATE_PRIORITY => ThreadPolicy::Priority,
        AGGREGATE_SHARES => ThreadPolicy::Shares,
        AGGREGATE_DEADLINES => ThreadPolicy::Deadlines,
        _ => return None,
    })
}

fn number_of(policy: ThreadPolicy) -> u64 {
    match policy {
        ThreadPolicy::RoundRobin => AGGREGATE_ROUND_ROBIN,
        ThreadPolicy::Priority => AGGREGATE_PRIORITY,
        ThreadPolicy::Shares => AGGREGATE_SHARES,
        ThreadPolicy::Deadlines => AGGREGATE_DEADLINES,
    }
}
