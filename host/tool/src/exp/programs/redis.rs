//! Redis: its own benchmark, the counts that it must leave, and those again after a kill.

use super::program::Program;

/// Requests of four kinds by twenty connections.
pub const REDIS: Program = Program {
    packages: &["redis-server", "redis-tools"],
    script: r#"
N=12000
mkdir -p /var/lib/redis
serves() { [ "$(redis-cli ping)" = PONG ]; }
start() { redis-server --bind 127.0.0.1 --save '' --appendonly yes --dir /var/lib/redis > /root/redis.log 2>&1 & server=$!; wait_until serves; }
start
begins
redis-benchmark -q -n $N -c 20 -t set,get,incr,lpush || failed redis-benchmark
worked $((4 * N))
counts() { redis-cli get counter:__rand_int__; redis-cli llen mylist; redis-cli get key:__rand_int__; }
wanted="$N
$N
VXK"
same "$wanted" "$(counts)" "counts"
redis-cli set last yes; redis-cli bgrewriteaof; sleep 3
kill -9 $server; wait $server
start
same "$wanted" "$(counts)" "counts after a kill"
same yes "$(redis-cli get last)" "last"
"#,
    ..Program::new("redis", "requests")
};
