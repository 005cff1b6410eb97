//! Python's own tests of what the system gives it; those that fail are counted here and on Linux.

use std::time::Duration;

use super::program::Program;

/// Modules of tests, one after another.
pub const PYTHON: Program = Program {
    packages: &["python3.11", "libpython3.11-testsuite", "netbase"],
    size_mib: 768,
    script: r#"
cd /tmp
T="test_select test_mmap test_os test_threading test_signal test_subprocess test_socket"
begins
ran=0; failures=0
for t in $T; do
    timeout 600 python3.11 -m test -v $t > /tmp/$t.log 2>&1; code=$?
    [ $code -lt 124 ] || { echo "$t ended with $code"; tail -5 /tmp/$t.log; failures=$((failures + 1)); }
    count=$(grep -E '^Ran [0-9]+ tests? in' /tmp/$t.log | head -1 | cut -d ' ' -f 2)
    ran=$((ran + ${count:-0}))
    grep -E '^(FAIL|ERROR): ' /tmp/$t.log | sort -u > /tmp/failed
    cat /tmp/failed; failures=$((failures + $(wc -l < /tmp/failed)))
done
worked $ran
echo "programs: failures $failures"
same 7 "$(ls /tmp/test_*.log | wc -l)" "modules"
"#,
    limit: Duration::from_secs(2400),
    ..Program::new("python-tests", "tests")
};
