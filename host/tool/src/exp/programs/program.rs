//! A program that people host, as the experiment runs it: what its image holds, what it does, and the unit of its work.
//!
//! Its commands are a shell script that begins behind [`PRELUDE`]: it prepares, says `begins`, works, says `worked COUNT`, and checks what came
//! of it with `same` or `failed`. The words of a line are "programs: WORD COUNT".

use std::time::Duration;

/// One program.
pub struct Program {
    /// Its name on the command line and in the report.
    pub name: &'static str,
    /// The unit of its work, in the plural.
    pub unit: &'static str,
    /// Debian packages of its image, beside busybox, bash and coreutils.
    pub packages: &'static [&'static str],
    /// The image's size, MiB.
    pub size_mib: u64,
    /// Files of numbered lines of 16 bytes: path and size in bytes.
    pub generate: &'static [(&'static str, u64)],
    /// Text files: path and contents.
    pub files: &'static [(&'static str, &'static str)],
    /// The commands.
    pub script: &'static str,
    /// No run takes that long, boot included.
    pub limit: Duration,
}

/// The least a program says: tests may be refused on both kernels, so it may also say `programs: failures COUNT`.
impl Program {
    /// A program without files of its own, in an image of 512 MiB, that takes a quarter of an hour at most.
    pub const fn new(name: &'static str, unit: &'static str) -> Self {
        let limit = Duration::from_secs(900);
        Self { name, unit, packages: &[], size_mib: 512, generate: &[], files: &[], script: "", limit }
    }

    /// Returns the whole script.
    pub fn commands(&self) -> String {
        format!("{PRELUDE}{}\n{END}", self.script)
    }
}

const PRELUDE: &str = r#"
/bin/busybox mkdir -p /opt/bb; /bin/busybox --install -s /opt/bb
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/opt/bb LC_ALL=C HOME=/root USER=root
cd /root
[ -d /dev/shm ] || mkdir -m 1777 /dev/shm
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
mkdir -p /run /var/run
failed() { echo "programs: FAILED $*"; sleep 100000; }
begins() { echo "programs: begins 0"; sleep 1; }
worked() { echo "programs: worked $1"; sleep 1; }
same() { [ "$1" = "$2" ] || failed "$3: wanted $1, got $2"; }
user() { grep -q "^$1:" /etc/passwd || { echo "$1:x:$2:$2::/tmp:/bin/sh" >> /etc/passwd; echo "$1:x:$2:" >> /etc/group; }; }
become() { who=$1; shift; /usr/sbin/chroot --userspec="$who:$who" / "$@"; }
wait_until() { n=0; until "$@" > /dev/null 2>&1; do n=$((n + 1)); [ $n -lt 300 ] || failed "$*"; sleep 0.3; done; }
"#;

const END: &str = "echo 'programs: done 0'; sleep 100000\n";
