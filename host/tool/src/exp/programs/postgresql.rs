//! PostgreSQL: pgbench's bank, whose balances must be equal, also after a crash under load.

use super::program::Program;

/// TPC-B transactions of four clients.
pub const POSTGRESQL: Program = Program {
    packages: &["postgresql-15", "postgresql-client-15"],
    size_mib: 1024,
    script: r#"
N=400
PATH=/usr/lib/postgresql/15/bin:$PATH; D=/var/lib/postgresql/data
user postgres 105
mkdir -p /var/lib/postgresql /run/postgresql; chown postgres:postgres /var/lib/postgresql /run/postgresql
cd /tmp
start() { become postgres pg_ctl -D $D -w -t 180 -l /tmp/pg.log -o "-c max_wal_senders=0" start > /dev/null || failed "start: $(tail -5 /tmp/pg.log)"; }
ask() { psql -U postgres -Atc "$1" postgres; }
become postgres initdb -D $D -A trust --no-sync > /tmp/initdb.log 2>&1 || failed "initdb: $(tail -5 /tmp/initdb.log)"
start
pgbench -U postgres -i -q -s 2 postgres > /tmp/pgbench.log 2>&1 || failed "pgbench -i: $(tail -5 /tmp/pgbench.log)"
begins
pgbench -U postgres -n -c 4 -j 2 -t $N postgres > /tmp/pgbench.log 2>&1 || failed "pgbench: $(tail -5 /tmp/pgbench.log)"
worked $((4 * N))
sums="select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)
  and (select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history)
  and (select sum(bbalance) from pgbench_branches) = (select sum(delta) from pgbench_history)"
same t "$(ask "$sums")" balances
same $((4 * N)) "$(ask 'select count(*) from pgbench_history')" history
pgbench -U postgres -n -c 4 -j 2 -T 60 postgres > /tmp/crash.log 2>&1 &
sleep 4
kill -9 $(head -1 $D/postmaster.pid); wait
sleep 2
start
grep -q "automatic recovery in progress" /tmp/pg.log || failed "no recovery: $(tail -5 /tmp/pg.log)"
same t "$(ask "$sums")" "balances after the crash"
[ "$(ask 'select count(*) from pgbench_history')" -gt $((4 * N)) ] || failed "history after the crash"
become postgres pg_ctl -D $D -w stop > /dev/null || failed stop
"#,
    ..Program::new("postgresql", "transactions")
};
