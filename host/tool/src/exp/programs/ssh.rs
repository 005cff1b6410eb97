//! sshd: sessions of another user, and files carried both ways.

use super::program::Program;

/// Sessions, of which two carry 4 MiB.
pub const SSH: Program = Program {
    packages: &["openssh-server", "openssh-client"],
    generate: &[("/srv/4m", 4 << 20)],
    script: r#"
user sshd 107; user alice 1000
sed -i 's,^alice:.*,alice:*:1000:1000::/home/alice:/bin/sh,' /etc/passwd
mkdir -p /run/sshd /root/.ssh /home/alice/.ssh; chmod 700 /root/.ssh /home/alice/.ssh; chmod 755 /home/alice
ssh-keygen -q -t ed25519 -N "" -f /etc/ssh/ssh_host_ed25519_key < /dev/null
ssh-keygen -q -t ed25519 -N "" -f /root/.ssh/id_ed25519 < /dev/null
cp /root/.ssh/id_ed25519.pub /home/alice/.ssh/authorized_keys; chown -R alice:alice /home/alice
printf 'HostKey /etc/ssh/ssh_host_ed25519_key\nListenAddress 127.0.0.1:2222\nUsePAM no\nPasswordAuthentication no\n' > /etc/ssh/work
/usr/sbin/sshd -f /etc/ssh/work -E /tmp/sshd.log || failed "sshd: $(tail -5 /tmp/sshd.log)"
run() { ssh -q -p 2222 -o StrictHostKeyChecking=no -o BatchMode=yes alice@127.0.0.1 "$@"; }
n=0; until [ "$(run echo yes)" = yes ]; do n=$((n + 1)); [ $n -lt 20 ] || failed "ssh: $(tail -5 /tmp/sshd.log)"; sleep 0.3; done
begins
for s in $(seq 10); do
    same "alice $s" "$(run "echo \$(id -un) $s")" "session $s"
done
run "cat > up" < /srv/4m || failed up
run "cat up" > /tmp/down || failed down
worked 12
same "$(sha256sum < /srv/4m)" "$(sha256sum < /tmp/down)" "the file there and back"
run "exit 7"; same 7 $? "code"
run "cat /root/.ssh/id_ed25519" 2> /dev/null && failed "alice reads what is root's"
"#,
    ..Program::new("sshd", "sessions")
};
