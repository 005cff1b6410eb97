//! Policies, one a file.

mod earliest_deadline;
mod round_robin;
mod speed_balancing;
mod work_stealing;

pub use earliest_deadline::EarliestDeadline;
pub use round_robin::RoundRobin;
pub use speed_balancing::SpeedBalancing;
pub use work_stealing::WorkStealing;
