//! MariaDB with new orders and payments as in TPC-C: its conditions of consistency hold, also after a kill under load.

use std::time::Duration;

use super::program::Program;

/// Transactions of four clients: an order of five to fifteen lines, or a payment.
pub const MARIADB: Program = Program {
    packages: &["mariadb-server"],
    size_mib: 1024,
    files: &[("/root/load.sql", SCHEMA)],
    script: r#"
N=200
user mysql 108
D=/var/lib/mysql; mkdir -p $D /run/mysqld; chown mysql:mysql $D /run/mysqld
start() { mariadbd --no-defaults --user=mysql --datadir=$D --socket=/run/mysqld/mysqld.sock --bind-address=127.0.0.1 --innodb-buffer-pool-size=64M --skip-name-resolve > /tmp/mariadb.log 2>&1 & server=$!; wait_until ask 'select 1'; }
ask() { mariadb --no-defaults -u root -S /run/mysqld/mysqld.sock -N -B -e "$1" ${2:-}; }
mariadb-install-db --no-defaults --user=mysql --datadir=$D --skip-test-db --auth-root-authentication-method=normal > /tmp/install.log 2>&1 || failed "install: $(tail -5 /tmp/install.log)"
start
mariadb --no-defaults -u root -S /run/mysqld/mysqld.sock < /root/load.sql || failed "load.sql"
clients() { for c in 1 2 3 4; do ask "call work($c, $1)" tpcc > /tmp/client$c.log 2>&1 & pids="${pids:-} $!"; done; }
begins
pids=; clients $N
for p in $pids; do wait $p || failed "a client: $(cat /tmp/client*.log)"; done
worked $((4 * N))
consistent() { ask "
select (select sum(w_ytd) from warehouse) = (select sum(d_ytd) from district)
  and (select sum(w_ytd) from warehouse) = (select ifnull(sum(h_amount), 0) from history)
  and not exists (select 1 from district where d_next_o_id - 1 <> (select ifnull(max(o_id), 0) from orders where o_d_id = d_id))
  and (select sum(o_ol_cnt) from orders) = (select count(*) from order_line)
  and (select sum(s_ytd) from stock) = (select sum(ol_quantity) from order_line)" tpcc; }
done_so_far() { ask "select (select count(*) from orders) + (select count(*) from history)" tpcc; }
same 1 "$(consistent)" consistency
same $((4 * N)) "$(done_so_far)" transactions
pids=; clients 100000
sleep 4
kill -9 $server; wait
start
grep -qi "crash recovery" /tmp/mariadb.log || failed "no recovery: $(tail -5 /tmp/mariadb.log)"
same 1 "$(consistent)" "consistency after the crash"
[ "$(done_so_far)" -gt $((4 * N)) ] || failed "transactions after the crash: $(done_so_far)"
same "status OK" "$(ask 'check table orders extended' tpcc | cut -f 3,4 | tr '\t' ' ')" "check"
ask shutdown; wait $server
"#,
    limit: Duration::from_secs(1500),
    ..Program::new("mariadb", "transactions")
};

const SCHEMA: &str = r#"
create database tpcc; use tpcc;
create table warehouse (w_id int primary key, w_ytd bigint not null) engine=innodb;
create table district (d_id int primary key, d_ytd bigint not null, d_next_o_id int not null) engine=innodb;
create table customer (c_id int primary key, c_balance bigint not null, c_data char(100) not null) engine=innodb;
create table stock (s_i_id int primary key, s_quantity int not null, s_ytd bigint not null, s_data char(50) not null) engine=innodb;
create table orders (o_id int, o_d_id int, o_c_id int, o_ol_cnt int, primary key (o_d_id, o_id)) engine=innodb;
create table order_line (ol_o_id int, ol_d_id int, ol_number int, ol_i_id int, ol_quantity int, primary key (ol_d_id, ol_o_id, ol_number)) engine=innodb;
create table history (h_id bigint auto_increment primary key, h_c_id int, h_amount bigint) engine=innodb;
insert into warehouse values (1, 0);
insert into district select seq, 0, 1 from seq_1_to_10;
insert into customer select seq, 0, repeat('c', 100) from seq_1_to_3000;
insert into stock select seq, 50, 0, repeat('s', 50) from seq_1_to_10000;
delimiter //
create procedure new_order()
begin
    declare d, o, c, n, i, q int;
    set d = 1 + floor(rand() * 10), c = 1 + floor(rand() * 3000), n = 5 + floor(rand() * 11);
    start transaction;
    select d_next_o_id into o from district where d_id = d for update;
    update district set d_next_o_id = o + 1 where d_id = d;
    insert into orders values (o, d, c, n);
    while n > 0 do
        -- Clients lock stock behind their district, each in its own part, so no two wait for each other in a ring.
        set i = d + 10 * floor(rand() * 999), q = 1 + floor(rand() * 10);
        update stock set s_quantity = if(s_quantity > q + 10, s_quantity - q, s_quantity - q + 91), s_ytd = s_ytd + q where s_i_id = i;
        insert into order_line values (o, d, n, i, q);
        set n = n - 1;
    end while;
    commit;
end//
create procedure payment()
begin
    declare d, c, a int;
    set d = 1 + floor(rand() * 10), c = 1 + floor(rand() * 3000), a = 1 + floor(rand() * 5000);
    start transaction;
    update warehouse set w_ytd = w_ytd + a where w_id = 1;
    update district set d_ytd = d_ytd + a where d_id = d;
    update customer set c_balance = c_balance - a where c_id = c;
    insert into history (h_c_id, h_amount) values (c, a);
    commit;
end//
create procedure work(seed int, times int)
begin
    do rand(seed);
    while times > 0 do
        if rand() < 0.5 then call new_order(); else call payment(); end if;
        set times = times - 1;
    end while;
end//
delimiter ;
"#;
