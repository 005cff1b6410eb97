// Node.js' modules, its tables of languages, and hashes of many short texts; says what came of it. tests/boot/mapped runs it in a tenant.
//
// usage: node work.js COUNT

const { createHash } = require('crypto');
const { builtinModules } = require('module');

const count = Number(process.argv[2]);
// Names with a line before them are for Node.js alone; each other one is loaded.
const loaded = builtinModules.filter(name => !name.startsWith('_') && typeof require(name) !== 'undefined');
console.log('modules:', ['fs', 'http2', 'inspector', 'zlib'].every(name => loaded.includes(name)));

const money = new Intl.NumberFormat('de-DE', { style: 'currency', currency: 'EUR' }).format(1234567.891);
const day = new Intl.DateTimeFormat('fr-FR', { dateStyle: 'full', timeZone: 'UTC' }).format(new Date(0));
console.log('languages:', money.replace(/\s/g, ' '), day, ['z', 'ä', 'a'].sort(new Intl.Collator('de').compare).join(''));

const all = createHash('sha256'), texts = [];
for (let number = 0; number < count; number++) texts.push(JSON.stringify({ number, text: `text ${number}` }));
for (const text of texts) all.update(createHash('sha256').update(text).digest());
console.log('hash:', all.digest('hex'));
