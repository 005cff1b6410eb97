//! Apache with each of its two ways to hand out connections: pages of 32 KiB and 4 MiB for ab, hashed.

use super::program::Program;
use crate::{
    cli::Kernel,
    exp::rig::{Measured, Plan, Rig, as_it_is, nothing},
    failure::Result,
};
use gyre_machine_file::Description;

/// Threads.
pub const EVENT: Program = Program { files: &[("/etc/apache2/mpm.conf", MPM_EVENT)], ..apache("apache-event") };
/// Processes.
pub const PREFORK: Program = Program { files: &[("/etc/apache2/mpm.conf", MPM_PREFORK)], ..apache("apache-prefork") };

const MPM_EVENT: &str = "LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\n";
const MPM_PREFORK: &str = "LoadModule mpm_prefork_module /usr/lib/apache2/modules/mod_mpm_prefork.so\n";

const fn apache(name: &'static str) -> Program {
    Program {
        packages: &["apache2-bin", "apache2-utils"],
        generate: &[("/srv/www/32k", 32 << 10), ("/srv/www/4m", 4 << 20)],
        script: SCRIPT,
        ..Program::new(name, "pages")
    }
}

const SCRIPT: &str = r#"
mkdir -p /run/apache2 /var/log/apache2
cat /etc/apache2/mpm.conf - > /etc/apache2/work.conf <<'CONF'
ServerName localhost
ServerRoot /etc/apache2
PidFile /run/apache2/apache2.pid
DefaultRuntimeDir /run/apache2
Listen 127.0.0.1:80
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
User www-data
Group www-data
DocumentRoot /srv/www
ErrorLog /var/log/apache2/error.log
CONF
apache2 -f /etc/apache2/work.conf || failed "start: $(tail -5 /var/log/apache2/error.log)"
wait_until wget -q -O /dev/null http://127.0.0.1/32k
load() { ab -q -l -n $1 -c 8 $3 http://127.0.0.1/$2 > /tmp/ab.log 2>&1 || failed "ab: $(tail -5 /tmp/ab.log)"
    same "Complete requests: $1" "$(grep Complete /tmp/ab.log | tr -s ' ')" complete
    same "Failed requests: 0" "$(grep Failed /tmp/ab.log | tr -s ' ')" failed; ! grep Non-2xx /tmp/ab.log || failed "ab: not 200"; }
begins
load 2000 32k -k
load 1000 32k
load 40 4m
worked 3040
for page in 32k 4m; do same "$(sha256sum < /srv/www/$page)" "$(wget -q -O - http://127.0.0.1/$page | sha256sum)" "$page"; done
apache2 -f /etc/apache2/work.conf -k graceful || failed graceful
wait_until wget -q -O /dev/null http://127.0.0.1/32k
apache2 -f /etc/apache2/work.conf -k stop || failed stop
wait_until eval '[ ! -e /run/apache2/apache2.pid ] && ! wget -q -O /dev/null http://127.0.0.1/32k'
"#;

/// Pages of one size that a client outside of the machine asks for.
pub struct Page {
    /// The name.
    pub name: &'static str,
    /// The path.
    path: &'static str,
    /// The paper's share of CPU time that is not message processing, batch 1.
    pub paper: &'static str,
    /// The most that we promise, percent.
    pub bound: Option<f64>,
}

/// The paper's sizes.
pub const PAGES: [Page; 2] = [
    Page { name: "4 MB", path: "/4m", paper: "10-16 %", bound: Some(10.0) },
    Page { name: "32 KB", path: "/32k", paper: "", bound: None },
];

impl Page {
    /// Measures Apache (event) on `experiments/overhead-programs.toml`.
    ///
    /// # Errors
    /// When the machine does not run.
    pub fn measure(&self, rig: &Rig) -> Result<Measured> {
        let file = "overhead-programs.toml";
        let prepare = |description: &mut Description| {
            let loads = description.tenants.iter_mut().filter_map(|tenant| tenant.load.as_mut());
            loads.for_each(|load| load.path = self.path.into());
        };
        let plan = Plan { file, on: Kernel::Gyre, warm_up: 5, seconds: 15, change: &as_it_is, besides: &nothing };
        rig.measure_prepared(&plan, &prepare)
    }
}
