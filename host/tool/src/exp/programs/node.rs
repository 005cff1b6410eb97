//! Node.js: an http server with worker threads that hash, and clients in the same program that check each answer.

use super::program::Program;

/// Requests answered by workers.
pub const NODE: Program = Program {
    packages: &["nodejs"],
    size_mib: 768,
    files: &[("/root/work.js", SOURCE)],
    script: r#"
[ "$(node -p 6*7)" = 42 ] || failed node
begins
node work.js > /tmp/node.log 2>&1 || failed "node: $(tail -5 /tmp/node.log)"
worked 1500
same "answers 1500 right 1500 workers 2" "$(cat /tmp/node.log)" answers
"#,
    ..Program::new("node", "requests")
};

const SOURCE: &str = r#"
const http = require('http'), crypto = require('crypto'), os = require('os');
const { Worker, isMainThread, parentPort, threadId } = require('worker_threads');
const hash = text => crypto.createHash('sha256').update(text.repeat(100)).digest('hex');

if (!isMainThread) {
    parentPort.on('message', ({ id, text }) => parentPort.postMessage({ id, hash: hash(text), by: threadId }));
} else {
    const COUNT = 1500, CLIENTS = 8;
    os.networkInterfaces();
    const waiting = new Map(), workers = [new Worker(__filename), new Worker(__filename)];
    let id = 0;
    const by = new Set();
    for (const worker of workers) worker.on('message', done => {
        by.add(done.by);
        waiting.get(done.id)(done.hash);
        waiting.delete(done.id);
    });
    const server = http.createServer((request, response) => {
        const own = id++;
        waiting.set(own, value => response.end(value));
        workers[own % 2].postMessage({ id: own, text: request.url });
    });
    const agent = new http.Agent({ keepAlive: true, maxSockets: CLIENTS });
    server.listen(0, '127.0.0.1', async () => {
        let next = 0, answers = 0, right = 0;
        const ask = path => new Promise((resolve, reject) => http.get({ port: server.address().port, host: '127.0.0.1', path, agent }, response => {
            let text = '';
            response.on('data', piece => text += piece).on('end', () => resolve(text));
        }).on('error', reject));
        const client = async () => {
            while (next < COUNT) {
                const path = '/' + next++;
                const answer = await ask(path);
                answers++;
                if (answer === hash(path)) right++;
            }
        };
        await Promise.all(Array.from({ length: CLIENTS }, client));
        console.log(`answers ${answers} right ${right} workers ${by.size}`);
        process.exit(0);
    });
}
"#;
