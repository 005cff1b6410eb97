//! The choice of a call of `gyre test`: everything, what a filter names, what a change needs at once, or a search.

use std::ffi::OsString;

use super::{bound::Bound, draws, quick};
use crate::{cli, failure::Result, project::Project, ui::say};

/// The seed of property tests ("Configuration", proptest's book). It is fixed, so that a verdict depends on the tree alone; whoever searches
/// sets another one.
pub const PROPERTIES: &str = "PROPTEST_RNG_SEED";
/// A filter that means all suites which boot machines; a longer one begins so.
const BOOT: &str = "boot";
const BOOT_FOLDER: &str = "tests/boot/";
/// Tells suites and tests that this is a search.
const LONG: &str = "GYRE_LONG";
/// A search sets these besides seeds: cases of property tests, seeds of tests that have some, seconds of each mutator, crashes of a machine.
const SEARCH: &[(&str, &str)] =
    &[(LONG, "1"), ("PROPTEST_CASES", "5000"), ("GYRE_SEEDS", "200"), ("FUZZ_SECONDS", "600"), ("CRASHES", "300")];

/// How much is tested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// Everything that a change must pass.
    Whole,
    /// Something of that.
    Part,
    /// Only things that a change needs at once.
    Quick,
    /// More than a change must pass, by this seed.
    Long(u32),
}

/// The choice of what is tested.
pub struct Plan {
    /// How much.
    pub depth: Depth,
    /// Part of the names of tests.
    pub filter: Option<String>,
    /// The packages whose tests run, if not all of them do.
    pub packages: Option<Vec<String>>,
    /// Tests that boot nothing run.
    pub has_host: bool,
    /// Suites that boot machines run.
    pub has_boot: bool,
}

impl Plan {
    /// Makes the plan of a call, and says a seed that it draws.
    ///
    /// # Errors
    /// When git or cargo does not say what has changed, or the host gives no random bytes.
    pub fn of(project: &Project, arguments: &cli::Test, suites: &[String]) -> Result<Self> {
        let mut plan = Self::by_words(arguments, suites);
        if arguments.quick {
            plan.packages = Some(quick::packages(project)?);
        }
        if arguments.long {
            let seed = draws::seed()?;
            plan.depth = Depth::Long(seed);
            say(&format!("the search has seed {seed}: {PROPERTIES}={seed} repeats its property tests"));
        }
        Ok(plan)
    }

    fn by_words(arguments: &cli::Test, suites: &[String]) -> Self {
        let filter = arguments.filter.clone();
        let only_boot = !arguments.no_boot && filter.as_ref().is_some_and(|filter| is_of_boot(filter, suites));
        let is_whole = filter.is_none() && !arguments.no_boot;
        let depth = match (arguments.quick, is_whole) {
            (true, _) => Depth::Quick,
            (false, true) => Depth::Whole,
            (false, false) => Depth::Part,
        };
        Self { depth, filter, packages: None, has_host: !only_boot, has_boot: !arguments.no_boot }
    }

    /// Returns whether a suite that boots machines, named by its path, is to run.
    pub fn has(&self, suite: &str) -> bool {
        match (self.depth, &self.filter) {
            (Depth::Quick, _) => suite == quick::SUITE,
            (_, Some(filter)) => suite.contains(filter.as_str()),
            _ => true,
        }
    }

    /// Returns whether tests on the host with this word in their names may be meant.
    pub fn may_have(&self, word: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.contains(word))
    }

    /// Returns what tests and suites find in their environment.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let Depth::Long(seed) = self.depth else {
            let own = std::env::var_os(PROPERTIES).unwrap_or_else(|| "1".into());
            return vec![(PROPERTIES, own)];
        };
        let fixed = SEARCH.iter().map(|(name, value)| (*name, OsString::from(value)));
        let drawn = [PROPERTIES, "FUZZ_SEED"].map(|name| (name, OsString::from(seed.to_string())));
        fixed.chain(drawn).collect()
    }

    /// Returns how long a suite may say nothing.
    pub fn bound(&self) -> Bound {
        if matches!(self.depth, Depth::Long(_)) { Bound::SEARCH } else { Bound::USUAL }
    }
}

/// Returns whether a filter means suites that boot machines: it begins as all of them do, or is the name of one.
fn is_of_boot(filter: &str, suites: &[String]) -> bool {
    let rest = |suite: &String| suite.strip_prefix(BOOT_FOLDER).map(|rest| rest.trim_end_matches("/run").to_owned());
    filter == BOOT
        || [BOOT_FOLDER, "boot/"].iter().any(|folder| filter.starts_with(folder))
        || suites.iter().filter_map(rest).any(|name| name == filter)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A plan by a filter.
    pub fn with(filter: Option<&str>) -> Plan {
        let suites = ["tests/boot/streams/run", "tests/boot/zones.sh", "tests/boot/zones/run"].map(str::to_owned);
        Plan::by_words(&cli::Test { filter: filter.map(str::to_owned), ..cli::Test::default() }, &suites)
    }

    #[test]
    fn a_filter_that_names_suites_means_them_alone() {
        let parts = |filter| (with(filter).depth, with(filter).has_host, with(filter).has("tests/boot/zones.sh"));
        assert_eq!(parts(None), (Depth::Whole, true, true));
        assert_eq!(parts(Some("boot")), (Depth::Part, false, true));
        assert_eq!(parts(Some("boot/zones")), (Depth::Part, false, true));
        assert_eq!(parts(Some("zones")), (Depth::Part, false, true));
        assert_eq!(parts(Some("streams")), (Depth::Part, false, false));
        assert_eq!(parts(Some("zone")), (Depth::Part, true, true));
        assert_eq!(parts(Some("tcp")), (Depth::Part, true, false));
        let host = cli::Test { filter: Some("zones".into()), no_boot: true, ..cli::Test::default() };
        let plan = Plan::by_words(&host, &["tests/boot/zones/run".into()]);
        assert!(plan.has_host && !plan.has_boot);
    }

    #[test]
    fn models_run_without_a_filter_and_with_one_that_names_them() {
        assert!(with(None).may_have("loom") && with(Some("loom_tests::a_wake")).may_have("loom"));
        assert!(!with(Some("tcp")).may_have("loom"));
    }

    #[test]
    fn a_search_has_its_seed_and_a_usual_run_a_fixed_one() {
        let mut plan = with(None);
        assert_eq!(plan.environment().len(), 1);
        plan.depth = Depth::Long(77);
        let environment = plan.environment();
        assert!(
            environment.contains(&(PROPERTIES, "77".into()))
                && environment.contains(&("PROPTEST_CASES", "5000".into()))
        );
    }
}
