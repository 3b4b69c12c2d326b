// The page of `rewake serve`: sessions, one session live, questions, words.
//
// All that comes from a session is put into text nodes, with what is not seen as marks. The
// token stays in this tab: another program on the same port must not find it later. Typed words
// are in the tab's storage with each key, so neither a reload nor a server that died loses them.
'use strict';

const $ = (id) => document.getElementById(id);
const PAGE = 200;          // entries that are shown at first
const MAX_OUT = 20000;     // characters of an output that are shown
const QUIET = 500;         // a button that just came is not pressed by chance
const MAX_VALUES = 1000;   // characters of the values of an answer that are shown
// The word for the state 'left', which is also that of a session at its limit of turns.
const stateWords = (state) => (state === 'left' ? 'interrupted' : state);
let silent = 40000;        // so long a stream may bring nothing: it has a sign of life every 15 s
let patience = 20000;      // so long a request may take
const SLOW = 60000;        // so long a start, or an image
const COMPARED = 3000;     // so long a question waits for the difference to its file

let token = '';
let scope = null;          // what is followed: { abort, id }
let view = null;           // the session that is shown
let listAt = 0;            // how far the list was scrolled
const TAIL = 4096;         // bytes of the output of a running command
const MAX_FILES = 20;      // changed files of a call that are shown
const MAX_FOLDERS = 8;     // known folders that are offered
const SHORT_DIFF = 40;     // a diff with at most this number of lines is open
const LAST_LINES = 3;      // of a folded output, as on the screen
const LAST_OF_FAILED = 10;

// ---- storage that may be forbidden

function kept(name) { try { return sessionStorage.getItem(name) || ''; } catch { return ''; } }
function keep(name, value) {
  try { value ? sessionStorage.setItem(name, value) : sessionStorage.removeItem(name); } catch { /* this tab only */ }
}

// ---- text from outside

// Control characters, turned directions, and what is not seen. Joiners belong to words and emoji.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb]|\ud83b[\udc00-\udfff]|[\udb40-\udb43][\udc00-\udfff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const STRICT = new RegExp(UNSEEN.source + '|[\\u00a0\\u1680\\u2000-\\u200a\\u200c\\u200d\\u202f\\u205f\\u3000\\ufe00-\\ufe0f]', 'g');

function mark(c) {
  const n = c.codePointAt(0);
  if (n < 0x20) return String.fromCharCode(0x2400 + n);
  if (n === 0x7f) return '\u2421';
  return '<U+' + n.toString(16).toUpperCase().padStart(4, '0') + '>';
}

// Puts text into an element, each character that is not seen as a mark.
function put(into, text, strict, isAll) {
  if (isAll) into.replaceChildren();
  text = String(text).replace(/\r\n/g, '\n');
  let from = 0;
  for (const found of text.matchAll(strict ? STRICT : UNSEEN)) {
    if (found.index > from) into.append(text.slice(from, found.index));
    const span = document.createElement('span');
    span.className = 'mark';
    span.textContent = mark(found[0]);
    into.append(span);
    from = found.index + found[0].length;
  }
  if (from < text.length) into.append(text.slice(from));
  return into;
}

function el(name, cls, text, strict) {
  const made = document.createElement(name);
  if (cls) made.className = cls;
  if (text !== undefined && text !== null) put(made, text, strict);
  return made;
}

// A sentence of the server: it begins with a capital, and what is between backticks is code.
function sentence(into, text) {
  text.split(/`([^`\n]+)`/).forEach((part, place) => {
    if (place % 2) into.append(el('code', '', part, true));
    else put(into, place ? part : part.replace(/^\p{Ll}/u, (c) => c.toUpperCase()), true);
  });
  return into;
}

function ago(ms) {
  const s = Math.max(0, (Date.now() - ms) / 1000);
  if (s < 60) return 'now';
  if (s < 3600) return Math.floor(s / 60) + ' min';
  if (s < 86400) return Math.floor(s / 3600) + ' h';
  return Math.floor(s / 86400) + ' d';
}

// The length of a time, as the screen writes it.
function clock(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return s + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min' + (s % 60 ? ' ' + s % 60 + ' s' : '');
  return Math.floor(s / 3600) + ' h ' + Math.floor(s / 60) % 60 + ' min';
}
const duration = (ms) => (!(ms >= 50) ? '' : ms < 10000 ? (ms / 1000).toFixed(1) + ' s' : clock(ms));

// ---- the server

class Problem extends Error {
  constructor(status, said) {
    super(said.error || 'the server cannot be reached');
    this.status = status;
    this.hint = said.hint || '';
  }
  toString() { return this.hint ? this.message + ' — ' + this.hint : this.message; }
}

async function ask(method, path, body, key, limit = patience) {
  const headers = { Authorization: 'Bearer ' + token };
  if (key) headers['Idempotency-Key'] = key;
  if (body) headers['Content-Type'] = 'application/json';
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(limit) });
  } catch (e) {
    throw new Problem(0, e.name === 'TimeoutError' ? { error: 'the server does not answer' } : {});
  }
  document.body.dataset.scope = answer.headers.get('rewake-scope') || document.body.dataset.scope || '';
  const folder = answer.headers.get('rewake-folder');
  if (folder) $('start-folder').placeholder = new TextDecoder().decode(Uint8Array.from(folder, (c) => c.charCodeAt(0)));
  if (answer.ok) return answer;
  let said = {};
  try { said = await answer.json(); } catch { /* nothing was said */ }
  const problem = new Problem(answer.status, said);
  if (answer.status === 401) enter(problem.message);
  throw problem;
}

// The connection may die in the middle of an answer.
const complete = (read) => read.catch(() => { throw new Problem(0, { error: 'the answer of the server was cut' }); });
const get = async (path) => complete((await ask('GET', path)).json());
const post = async (path, body) => complete((await ask('POST', path, body || {})).json());

// Sends it once, however often it is tried: as long as no answer came, it has the same key.
async function send(path, body, method = 'POST') {
  const text = JSON.stringify(body);
  const before = kept('key ' + path);
  const key = before.slice(33) === text ? before.slice(0, 32)
    : Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
  keep('key ' + path, key + ' ' + text);
  try {
    const answer = await complete((await ask(method, path, body, key, /^\/sessions$|\/(rewind|compact)$/.test(path) ? SLOW : patience)).json());
    keep('key ' + path, '');
    return answer;
  } catch (e) {
    if (e.status) keep('key ' + path, '');
    throw e;
  }
}

// What was sent is recorded; the user learns whether a process works on it.
function sent(answer) {
  const why = answer.not_started;
  $('why').textContent = why ? 'Saved, but it is not running: ' + why.error + (why.hint ? ' — ' + why.hint : '') : '';
}

const of = (id, more) => '/sessions/' + encodeURIComponent(id) + (more || '');

function linked(is, why) {
  const text = is ? 'connected' : (why || 'not connected, trying again');
  if ($('link').textContent !== text) $('link').textContent = text;
  $('link').className = is ? '' : 'lost';
}

const pause = (ms, signal) => new Promise((done) => {
  const timer = setTimeout(done, ms);
  signal.addEventListener('abort', () => { clearTimeout(timer); done(); }, { once: true });
});

// What each stream does when the device is back: `again(true)` connects again, `again(false)` only when
// it was silent for longer than a sign of life takes.
const streams = new Set();
window.addEventListener('online', () => { for (const again of streams) again(true); });
window.addEventListener('offline', () => linked(false, 'this device is offline'));
document.addEventListener('visibilitychange', () => { if (!document.hidden) for (const again of streams) again(false); });

// Follows a stream of events until it is given up. `last` is where it goes on from.
async function follow(path, signal, last, on) {
  let wait = 300;
  let line;                // the connection, or the pause between two
  let heard;
  const again = (always) => {
    if (always || Date.now() - heard > 17000) { wait = 300; line.abort(); } else on.begin();
  };
  streams.add(again);
  signal.addEventListener('abort', () => { streams.delete(again); line.abort(); }, { once: true });
  while (!signal.aborted) {
    const mine = line = new AbortController();
    heard = Date.now();
    const watch = setInterval(() => { if (Date.now() - heard > silent) mine.abort(); }, 500);
    try {
      const headers = { Authorization: 'Bearer ' + token };
      const from = last();
      if (from !== null) headers['Last-Event-ID'] = String(from);
      const answer = await fetch(path, { headers, signal: mine.signal });
      if (answer.status === 401) return enter('the token is not known any more');
      if (!answer.ok) throw new Problem(answer.status, await answer.json().catch(() => ({})));
      linked(true);
      wait = 300;
      if (on.fresh) on.fresh();
      await on.begin();
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (;;) {
        const { value, done } = await reader.read();
        heard = Date.now();
        if (done) break;
        rest += value;
        let end;
        while ((end = rest.indexOf('\n\n')) >= 0) {
          const event = {};
          for (const line of rest.slice(0, end).split('\n')) {
            const at = line.indexOf(': ');
            if (at > 0) event[line.slice(0, at)] = line.slice(at + 2);
          }
          rest = rest.slice(end + 2);
          if (event.data) on.event(event.event, JSON.parse(event.data), event.id);
        }
      }
    } catch (e) {
      if (signal.aborted) return;
      if (e instanceof Problem && e.status) linked(false, String(e));
      else linked(false, mine.signal.aborted ? 'no sign of life from the server, trying again' : '');
    } finally {
      clearInterval(watch);
    }
    if (signal.aborted) return;
    linked(false, $('link').className === 'lost' ? $('link').textContent : '');
    line = new AbortController();
    heard = 0;
    await pause(wait, line.signal);
    wait = Math.min(wait * 2, 5000);
  }
}

// ---- questions of all sessions: how many, and a call to who looks elsewhere

let asked = [];
let titled = 'rewake';
const called = new Set();

function entitle(text) {
  titled = text;
  document.title = (asked.length ? '(' + asked.length + ') ' : '') + titled;
}

function knowAsked(questions) {
  asked = questions;
  entitle(titled);
  for (const q of questions) {
    const key = q.session + ' ' + q.call + ' ' + q.asked;
    if (called.has(key)) continue;
    called.add(key);
    if (document.hidden) call(q, key);
  }
}

function call(q, tag) {
  if (!('Notification' in window) || Notification.permission !== 'granted') return;
  const plain = (text) => String(text).replace(UNSEEN, mark).slice(0, 200);
  const body = plain(q.form ? inLine(q.form, 'asks', q.why) : q.tool + ' ' + (q.subject || ''));
  try {
    const shown = new Notification(plain('rewake asks: ' + q.name), { body, tag });
    shown.onclick = () => { window.focus(); location.hash = 's=' + q.session; shown.close(); };
  } catch { /* a browser in which a page may not */ }
}

function offerCalls() {
  $('notify').hidden = !('Notification' in window && isSecureContext && Notification.permission === 'default');
}
$('notify').addEventListener('click', async () => {
  await Notification.requestPermission();
  offerCalls();
});

function leave() {
  if (scope) scope.abort();
  if (!$('list').hidden) listAt = window.scrollY;
  for (const img of document.querySelectorAll('img[data-hash]')) hideImage(img);
  scope = new AbortController();
  return scope.signal;
}

function show(name) {
  for (const id of ['enter', 'list', 'session']) $(id).hidden = id !== name;
  $('back').hidden = name !== 'session';
}

// ---- which link

function enter(why) {
  leave();
  show('enter');
  $('title').textContent = 'rewake';
  asked = [];
  entitle('rewake');
  $('enter-why').textContent = why || '';
  linked(false, 'no token');
  $('enter-token').focus();
}

$('enter-form').addEventListener('submit', (e) => {
  e.preventDefault();
  const typed = $('enter-token').value.trim();
  token = (typed.match(/token=([0-9a-f]+)/i) || [null, typed])[1];
  keep('token', token);
  $('enter-token').value = '';
  route();
});

// ---- the list

let listed = { words: '', sessions: [], next: null };

async function list() {
  const signal = leave();
  view = null;
  show('list');
  $('title').textContent = 'rewake';
  entitle('rewake');
  offerCalls();
  $('words').value = listed.words = kept('search');
  let due = null;
  const soon = () => { due = due || setTimeout(() => { due = null; refresh(signal); }, 400); };
  const timer = setInterval(soon, 10000);
  signal.addEventListener('abort', () => { clearInterval(timer); clearTimeout(due); });
  if ($('start').open) knownFolders();
  follow('/events', signal, () => null, { begin: () => refresh(signal), event: soon });
}

async function refresh(signal, more) {
  const words = listed.words;
  const shown = more ? listed.sessions.length : 0;
  try {
    const q = new URLSearchParams();
    if (words) q.set('q', words);
    if (more && listed.next !== null) q.set('before', listed.next);
    else if (listed.sessions.length > 30) q.set('limit', Math.min(200, listed.sessions.length));
    const [page, asks] = await Promise.all([get('/agent/history?' + q), get('/questions')]);
    if (signal.aborted || words !== listed.words) return;
    listed.sessions = more ? listed.sessions.slice(0, shown).concat(page.sessions) : page.sessions;
    listed.next = page.next;
    drawList(asks);
    if (listAt) window.scrollTo(0, listAt);
    listAt = 0;
    knowAsked(asks);
    linked(true);
  } catch (e) {
    if (!signal.aborted && e.status !== 401) linked(false, String(e));
  }
}

// Brings a list up to date in place: a node that stays is the same node, so a press that began on
// it counts, and focus, typed text, scroll position and keyboard stay. `isFixed`: it never changes.
function renew(list, items, keyOf, make, isFixed) {
  const keys = new Set(items.map(keyOf));
  const old = new Map();
  for (const node of [...list.children]) keys.has(node.dataset.key) ? old.set(node.dataset.key, node) : node.remove();
  const focused = document.activeElement;
  let next = list.firstElementChild;
  for (const item of items) {
    let node = old.get(keyOf(item));
    if (!node || !isFixed) {
      const made = make(item);
      made.dataset.key = keyOf(item);
      if (node) patch(node, made);
      else node = made;
    }
    if (node === next) next = next.nextElementSibling;
    else list.insertBefore(node, next);
  }
  if (focused !== document.activeElement && list.contains(focused)) focused.focus({ preventScroll: true });
}

function patch(old, made) {
  if (old.isEqualNode(made)) return;
  if (old.nodeName !== made.nodeName) { old.replaceWith(made); return; }
  if (old.nodeType === Node.TEXT_NODE) { old.data = made.data; return; }
  for (const name of old.getAttributeNames()) if (!made.hasAttribute(name)) old.removeAttribute(name);
  for (const name of made.getAttributeNames()) if (old.getAttribute(name) !== made.getAttribute(name)) old.setAttribute(name, made.getAttribute(name));
  const [before, after] = [[...old.childNodes], [...made.childNodes]];
  after.forEach((node, place) => before[place] ? patch(before[place], node) : old.append(node));
  before.slice(after.length).forEach((node) => node.remove());
}

function drawList(asks) {
  const entry = (id) => {
    const [li, a] = [el('li'), el('a')];
    a.href = '#s=' + encodeURIComponent(id);
    li.append(a);
    return [li, a];
  };
  const row = (name, end, cls) => {
    const made = el('div', 'row');
    made.append(el('span', '', name), el('span', cls, end));
    return made;
  };
  $('asks').hidden = !asks.length;
  renew($('asks-list'), asks, (q) => q.session + ' ' + q.call, (q) => {
    const [li, a] = entry(q.session);
    a.append(row(q.name, ago(q.at_ms), ''), el('div', 'dim', q.form ? inLine(q.form, 'asks', q.why) : q.tool + ' ' + (q.subject || '')));
    return li;
  });
  renew($('sessions'), listed.sessions, (s) => s.id, (s) => {
    const [li, a] = entry(s.id);
    a.append(row(s.name, stateWords(s.state) + ' · ' + ago(s.updated_ms), 'state-' + s.state));
    if (s.asks) a.append(el('div', 'badge', 'waits for an answer'));
    if (s.parent || s.forked_from) a.append(el('div', 'dim', s.parent ? 'subagent' : 'a fork'));
    if (s.found) a.append(el('div', 'dim', s.found.snippet));
    else if (s.last_request && !s.last_request.startsWith(s.name.replace(/…$/, ''))) a.append(el('div', 'dim', 'last: ' + s.last_request));
    const step = s.plan && s.plan.steps.find((one) => one.state === 'current');
    if (step) a.append(el('div', 'dim', step.text));
    a.append(el('div', 'dim', s.folder));
    return li;
  });
  $('more').hidden = listed.next === null;
  $('sessions-none').hidden = listed.sessions.length > 0;
  $('sessions-none').textContent = listed.words ? 'Nothing of that was said.' : 'There are no sessions yet.';
}

let typing = null;
$('words').addEventListener('input', () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    listed = { words: $('words').value.trim(), sessions: [], next: null };
    keep('search', listed.words);
    refresh(scope.signal);
  }, 200);
});
$('search').addEventListener('submit', (e) => e.preventDefault());
$('more').addEventListener('click', () => refresh(scope.signal, true));

$('start-prompt').addEventListener('input', () => { keep('start', $('start-prompt').value); grow($('start-prompt')); });
$('start').addEventListener('toggle', async () => {
  knownFolders();
  if ($('models').children.length) return;
  try {
    const { models } = await get('/models');
    $('models').replaceChildren(...models.map((m) => { const one = el('option'); one.value = m.provider + '/' + m.model; return one; }));
  } catch { /* a name can be typed */ }
});
// Folders of the newest sessions. A subagent works in the folder of its parent.
async function knownFolders() {
  let found;
  try { found = await get('/agent/history?limit=200'); } catch { return; }
  const folders = [...new Set(found.sessions.filter((s) => !s.parent).map((s) => s.folder))].slice(0, MAX_FOLDERS);
  renew($('folders'), folders, (one) => one, (one) => {
    const li = el('li');
    const choose = li.appendChild(el('button', 'quiet', one, true));
    choose.type = 'button';
    choose.addEventListener('click', () => { $('start-folder').value = one; });
    return li;
  }, true);
}

$('start-form').addEventListener('submit', async (e) => {
  e.preventDefault();
  const button = $('start-form').querySelector('.send button');
  button.disabled = true;
  $('start-why').textContent = '';
  try {
    const wanted = { prompt: $('start-prompt').value };
    for (const name of ['folder', 'model', 'mode', 'effort']) wanted[name] = $('start-' + name).value.trim() || null;
    for (const name of ['turns', 'usd']) wanted[name] = $('start-' + name).valueAsNumber || null;
    const made = await send('/sessions', wanted);
    $('start-prompt').value = '';
    keep('start', '');
    location.hash = 's=' + made.session;
  } catch (problem) {
    $('start-why').textContent = 'Not started: ' + problem;
  }
  button.disabled = false;
});

// ---- one session

async function session(id) {
  const signal = leave();
  show('session');
  for (const name of ['log', 'queued', 'questions', 'plan-steps', 'running']) $(name).replaceChildren();
  $('rewind').hidden = true;
  $('menu').open = false;
  $('stop').hidden = $('go').hidden = true;
  for (const name of ['streamed', 'about', 'why']) $(name).textContent = '';
  $('plan').hidden = $('earlier').hidden = true;
  $('title').textContent = '…';
  $('text').value = kept('words ' + id);
  grow($('text'));
  view = { id, signal, first: 0, last: null, calls: new Map(), runs: new Map() };
  const mine = view;
  const ready = async () => {
    await about(mine);
    if (mine.last === null) await load(mine);
  };
  // The stream is begun behind what was loaded, so nothing lies between.
  let wait = 300;
  while (!signal.aborted && mine.last === null) {
    try {
      await ready();
      linked(true);
    } catch (e) {
      if (signal.aborted) return;
      if (e.status === 404) { $('title').textContent = 'There is no such session'; return; }
      linked(false, e.status ? String(e) : '');
      await pause(wait, signal);
      wait = Math.min(wait * 2, 5000);
    }
  }
  $('title').focus({ preventScroll: true });
  const look = () => get('/questions').then((all) => { if (!signal.aborted) knowAsked(all); }, () => {});
  const timer = setInterval(look, 10000);
  const tails = setInterval(() => { if (!document.hidden && (mine.live || $('running').children.length)) running(mine); }, 1500);
  signal.addEventListener('abort', () => { clearInterval(timer); clearInterval(tails); });
  look();
  running(mine);
  follow(of(mine.id, '/events'), signal, () => mine.last, {
    // What was streamed before may be an entry by now. What is still streamed comes as a whole.
    fresh: () => { $('streamed').textContent = ''; },
    begin: () => about(mine).catch(() => {}),
    event: (name, data, place) => {
      if (signal.aborted) return;
      const pinned = atEnd();
      if (name === 'entry') {
        mine.last = Number(place);
        draw(mine, data, $('log'));
        if (/^entry\.(asked|answered|decided|stopped)$/.test(data.type)) look();
        if (/^entry\.(asked|answered|decided|started|finished|stopped|paused|lifted|chose|named|titled|failed|replied|woke)$/.test(data.type)) soonAbout(mine);
      } else if (name === 'stream') {
        if (data.begins) $('streamed').textContent = '';
        put($('streamed'), data.text);
      } else if (name === 'state') {
        mine.live = data.live;
        drawQueued(data.queued);
        soonAbout(mine);
      } else if (name === 'problem') {
        linked(false, data.error);
      }
      if (pinned) toEnd();
    },
  });
}

const atEnd = () => window.innerHeight + window.scrollY > document.documentElement.scrollHeight - 120;
const toEnd = () => window.scrollTo(0, document.documentElement.scrollHeight);

async function load(mine) {
  const length = mine.entries;
  mine.first = Math.max(0, length - PAGE);
  let next = mine.first;
  const found = [];
  while (next !== null && next < length) {
    const part = await get(of(mine.id, '/entries?from=' + next + '&to=' + (length - 1)));
    found.push(...part.entries);
    next = part.next;
  }
  if (mine.signal.aborted) return;
  const all = document.createDocumentFragment();
  for (const entry of found) draw(mine, entry, all);
  $('log').replaceChildren(all);
  mine.last = length - 1;
  $('earlier').hidden = mine.first === 0;
  toEnd();
}

$('earlier').addEventListener('click', async () => {
  const mine = view;
  const to = mine.first - 1;
  const from = Math.max(0, mine.first - PAGE);
  try {
    const found = [];
    for (let next = from; next !== null && next <= to;) {
      const part = await get(of(mine.id, '/entries?from=' + next + '&to=' + to));
      found.push(...part.entries);
      next = part.next;
    }
    if (mine !== view) return;
    const all = document.createDocumentFragment();
    const now = [mine.turn, mine.lastMs, mine.hasEnded];
    [mine.turn, mine.lastMs, mine.hasEnded] = [];
    for (const entry of found) draw(mine, entry, all);
    [mine.turn, mine.lastMs, mine.hasEnded] = now;
    const before = document.documentElement.scrollHeight;
    $('log').prepend(all);
    mine.first = from;
    $('earlier').hidden = from === 0;
    window.scrollBy(0, document.documentElement.scrollHeight - before);
  } catch (e) { $('why').textContent = String(e); }
});

let aboutDue = null;
function soonAbout(mine) {
  if (aboutDue) return;
  aboutDue = setTimeout(() => { aboutDue = null; if (mine === view) about(mine).catch(() => {}); }, 100);
}

async function about(mine) {
  const s = await get(of(mine.id));
  if (mine.signal.aborted) return;
  mine.id = s.id;
  mine.entries = s.entries;
  const title = s.name;
  mine.live = s.live;
  if (document.activeElement !== $('new-title')) $('new-title').value = title;
  if ($('title').textContent !== title) put($('title'), title, false, true);
  entitle(title + ' · rewake');
  const cost = s.cost_usd ? ' · $' + s.cost_usd.toFixed(2) : '';
  const state = s.paused ? 'paused' : stateWords(s.state);
  put($('about'), state + ' · ' + s.mode + ' · ' + (s.model || '') + cost + ' · ' + s.folder, false, true);
  if (s.failure) $('about').append(el('div', 'note bad', s.failure.message + (s.failure.hint ? ' — ' + s.failure.hint : '')));
  const steps = s.plan ? s.plan.steps : [];
  $('plan').hidden = !steps.length;
  $('plan').querySelector('summary').textContent = 'Plan, ' + steps.filter((one) => one.state === 'done').length + ' of ' + steps.length + ' done';
  renew($('plan-steps'), steps.map((one, place) => [place, one]), ([place]) => String(place), ([, one]) => el('li', 'dim', ({ done: '✓ ', current: '▸ ' }[one.state] || '· ') + one.text));
  mine.parent = s.parent;
  $('go').hidden = !(s.paused || s.failure || (!s.live && s.unfinished));
  $('stop').hidden = !s.live || !$('go').hidden;
  $('pause').disabled = s.paused;
  drawQueued(s.queued);
  drawQuestions(mine, s.questions);
}

function drawQueued(queued) {
  renew($('queued'), queued || [], (one) => String(one.id), (one) => el('li', '', 'waits: ' + one.text));
}

// ---- entries

const subject = (name, args) => {
  try {
    const it = JSON.parse(args);
    return String(it.command || it.path || it.pattern || it.query || it.url || it.topic || '').split('\n')[0].slice(0, 200);
  } catch { return args.slice(0, 200); }
};

// The words of the terminal for a call that has not started, that runs, and that ended.
const LOOK = ['read', 'reading', 'read'];
const WRITE = ['write', 'writing', 'wrote'];
const VERBS = {
  ask_user: ['ask', 'asking', 'asked'], bash: ['run', 'running', 'ran'], bash_stop: ['stop', 'stopping', 'stopped'],
  bash_wait: ['wait for', 'waiting for', 'waited for'], edit: ['edit', 'editing', 'edited'], glob: LOOK, grep: LOOK, mcp_find: LOOK,
  memory: LOOK, memory_insert: ['remember', 'keeping', 'remembered'], memory_page: LOOK, memory_search: LOOK,
  plan: ['plan', 'planning', 'planned'], read: LOOK, review_history: LOOK, save_skill: WRITE,
  task: ['give a task', 'task at work', 'task'], web_fetch: LOOK, web_search: LOOK, write: WRITE,
};
const verb = (li, at) => { li.firstChild.textContent = (Object.hasOwn(VERBS, li.dataset.tool) ? VERBS[li.dataset.tool] : ['call', 'calling', 'called'])[at]; };

// A long text is folded. `last`: the number of its last lines that stay in sight.
function folded(text, cls, last) {
  text = text.replace(/\r?\n$/, '');
  const cut = text.length > MAX_OUT ? text.slice(0, MAX_OUT) + '\n[+ ' + (text.length - MAX_OUT) + ' characters]' : text;
  const lines = text.split('\n');
  if (lines.length <= Math.max(4, last || 0)) return el('pre', cls, cut);
  const both = document.createDocumentFragment();
  const more = both.appendChild(el('details'));
  more.append(el('summary', '', lines.length + ' lines'), el('pre', cls, cut));
  if (last) both.append(el('pre', cls + ' last', lines.slice(-last).join('\n').slice(-MAX_OUT)));
  return both;
}

function note(text, bad) { return el('li', bad ? 'note bad' : 'note', text); }

// `done in 39 s`: the end of a turn, as the screen measures it. The time in which a person was asked, or no
// process ran, does not count; a command that ran on meanwhile does.
function endOfTurn(mine, e) {
  const kind = e.type.slice(6);
  const before = mine.lastMs || e.at_ms;
  mine.lastMs = e.at_ms;
  const goesOn = mine.hasEnded ? { replied: e.at_ms - (e.took_ms || 0), started: e.at_ms, failed: e.at_ms }[kind] : undefined;
  const from = kind === 'said' || kind === 'lifted' ? e.at_ms : goesOn;
  if (!mine.turn && from !== undefined) mine.turn = { from, away: 0, absence: [0, 0], started: 0, failed: 0 };
  const turn = mine.turn;
  if (!turn) return '';
  if (kind === 'woke' || ((kind === 'decided' || kind === 'answered') && e.by === 'person')) turn.away += Math.max(0, e.at_ms - before);
  if (kind === 'woke') turn.absence = [before, e.at_ms];
  if (kind === 'started') turn.started = e.at_ms;
  if (kind === 'finished' && e.fact && e.fact.took_ms !== undefined) {
    if (/^(done|error)$/.test(e.outcome.outcome) && e.fact.exit_code !== 0) turn.failed += 1;
    const ran = Math.min(turn.started + e.fact.took_ms, turn.absence[1]) - Math.max(turn.started, turn.absence[0]);
    turn.away -= Math.min(Math.max(0, ran), turn.away);
    turn.absence = [0, 0];
  }
  const isAnswer = kind === 'replied' && !e.blocks.some((block) => block.type === 'call')
    && (e.stop === 'refusal' || e.blocks.some((block) => block.type === 'text' && block.text.trim()));
  const how = isAnswer ? 'done in ' : { stopped: 'stopped by you after ', failed: 'failed after ' }[kind];
  if (!how) return '';
  mine.turn = null;
  mine.hasEnded = true;
  const took = e.at_ms - turn.from - turn.away;
  const commands = turn.failed ? ' · ' + turn.failed + (turn.failed > 1 ? ' commands' : ' command') + ' failed' : '';
  return (took < 1000 ? how.replace(/ (in|after) $/, '') : how + clock(took)) + commands;
}

function draw(mine, e, into) {
  const kind = e.type.slice(6);
  const add = (li) => { li.dataset.seq = e.seq; into.append(li); };
  const ended = endOfTurn(mine, e);
  if (kind === 'said') {
    const li = el('li', 'said');
    const words = e.command ? ('/' + e.command.name + ' ' + (e.command.arguments || '')).trim() : e.text;
    li.append(el('p', 'words', words));
    if (e.seq > 1) {
      const back = el('button', 'quiet changes', 'Rewind…');
      back.setAttribute('aria-label', 'Rewind to before this message');
      back.addEventListener('click', () => offerRewind(mine, e.seq - 1, words));
      li.append(back);
    }
    addImages(mine, li, e.images);
    add(li);
  } else if (kind === 'replied') {
    let index = 0;
    for (const block of e.blocks) {
      if (block.type === 'text' && block.text.trim()) {
        const li = el('li');
        const box = markdown(block.text);
        box.classList.add('words');
        li.append(box);
        add(li);
      } else if (block.type === 'thinking' && block.text.trim()) {
        const li = el('li');
        const more = el('details');
        more.append(el('summary', '', 'thought'), el('p', 'words dim', block.text));
        li.append(more);
        add(li);
      } else if (block.type === 'call') {
        const li = el('li', 'call');
        const before = Object.hasOwn(VERBS, block.name) ? '' : block.name + ' ';
        li.dataset.tool = block.name;
        li.append(el('span', 'verb'), el('code', '', before + subject(block.name, block.arguments), true), el('span', 'end', ''));
        verb(li, 0);
        mine.calls.set(e.seq + '.' + index, li);
        index += 1;
        add(li);
      }
    }
  } else if (kind === 'started' || kind === 'finished') {
    const li = mine.calls.get(e.call.reply + '.' + e.call.index);
    if (!li) return;
    const end = li.querySelector('.end');
    if (kind === 'started') {
      verb(li, 1);
      li.dataset.call = e.call.reply + '.' + e.call.index;
      if (e.guard.run) mine.runs.set(e.guard.run, li);
      running(mine);
      return;
    }
    if (e.outcome.outcome === 'denied') li.firstChild.textContent = 'denied';
    else verb(li, e.outcome.outcome === 'interrupted' ? 0 : 2);
    over(mine, li);
    const out = e.outcome;
    const bad = out.outcome === 'error' || (out.outcome === 'done' && Boolean(e.fact && e.fact.exit_code));
    li.classList.toggle('bad', bad);
    li.classList.toggle('undone', out.outcome === 'denied' || out.outcome === 'interrupted');
    const failed = out.outcome === 'denied' ? '' : e.fact && e.fact.exit_code ? 'exit ' + e.fact.exit_code : { done: '', error: 'failed' }[out.outcome];
    end.textContent = [failed === undefined ? out.outcome : failed, duration(e.fact && e.fact.took_ms)].filter(Boolean).join(' · ');
    const rows = (out.output ? out.output.text : out.reason || '').trimEnd().split('\n');
    const isRun = e.fact && e.fact.took_ms !== undefined;
    // The output of a command ends with notes in brackets. The line of the call names the exit code.
    let printed = rows.length;
    while (isRun && printed && /^\[.*\]$/.test(rows[printed - 1])) printed -= 1;
    const notes = rows.splice(printed).filter((row) => !/^\[exit code \d+\]$/.test(row)).join('\n');
    const text = rows.join('\n').trimEnd();
    if (text) li.append(folded(text, 'out', bad ? LAST_OF_FAILED : isRun ? LAST_LINES : 0));
    if (notes) li.append(el('pre', 'out', notes));
    addImages(mine, li, out.output && out.output.images);
    if (li.dataset.call) { li.dataset.session = mine.id; near.observe(li); running(mine); }
  } else if (kind === 'decided') {
    if (e.verdict.verdict === 'deny') add(note('denied: ' + e.verdict.reason));
  } else if (kind === 'asked') {
    if (e.form) {
      mine.fields = e.form.wanted.fields || [];
      add(note(inLine(e.form, 'asked', e.why)));
    }
  } else if (kind === 'answered') {
    const named = (name) => ((mine.fields || []).find((f) => f.name === name) || {}).title || name;
    const values = e.answer.values ? Object.entries(e.answer.values).map(([name, value]) => named(name) + ' ' + JSON.stringify(value)).join(', ') : '';
    const what = { accept: 'answered', decline: 'declined', cancel: 'closed without an answer' }[e.answer.answer];
    add(note(what + (values ? ': ' + values.slice(0, MAX_VALUES) : '')));
  } else if (kind === 'stopped') { if (!ended) add(note('stopped')); }
  else if (kind === 'paused') add(note('paused'));
  else if (kind === 'lifted') add(note('continues: unblocked'));
  else if (kind === 'failed') add(note(e.error.message + (e.error.hint ? '\n' + e.error.hint : ''), true));
  else if (kind === 'noted') { const li = note('note'); li.append(folded(e.text, 'out')); add(li); }
  else if (kind === 'closed') { const li = note('the older part was summarised'); li.append(folded(e.summary, 'out')); add(li); }
  else if (kind === 'continued') { const li = note('the context was restarted from a note'); li.append(folded(e.note, 'out')); add(li); }
  else if (kind === 'woke') add(note(e.found));
  else if (kind === 'forked') add(note('forked from ' + e.from.session.slice(0, 8) + ' at entry ' + e.from.seq));
  else if (kind === 'chose') add(note('from here on: ' + [e.model, e.mode, e.effort && 'effort ' + e.effort, e.temperature !== undefined && 'temperature ' + e.temperature, e.limits && 'limits'].filter(Boolean).join(', ')));
  else if (kind === 'user_command') { const li = el('li', 'call'); li.append(el('span', 'verb', '!'), el('code', '', e.command, true)); add(li); }
  else if (kind === 'restored') add(note(e.why ? 'no file was restored: ' + e.why : 'the files were restored'));
  else if (kind === 'named') add(note('named ' + e.title));
  if (ended) add(note(ended));
}

// ---- images

// Those near the screen are fetched, with the token, and let go when they are far from it: however
// many a session has, few are in memory.
const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

const near = new IntersectionObserver((seen) => {
  for (const { target, isIntersecting } of seen) {
    if (target.nodeName !== 'IMG') { if (isIntersecting) soonDiff(target); } else isIntersecting ? showImage(target) : hideImage(target);
  }
}, { rootMargin: '100% 0px' });

function addImages(mine, li, images) {
  (images || []).forEach((image, place) => {
    const img = el('img');
    img.alt = 'image ' + (place + 1) + ' of ' + images.length;
    img.dataset.hash = image.blob.hash;
    img.dataset.session = mine.id;
    img.addEventListener('load', () => { img.style.height = ''; });
    near.observe(img);
    li.append(img);
  });
}

async function showImage(img) {
  if (img.dataset.is) return;
  img.dataset.is = 'wanted';
  try {
    const answer = await ask('GET', of(img.dataset.session, '/blobs/' + img.dataset.hash + '?as=image'), null, null, SLOW);
    const blob = await complete(answer.blob());
    if (!IMAGES.includes(blob.type)) throw new Problem(0, { error: 'it is no image' });
    if (img.dataset.is !== 'wanted' || !img.isConnected) return;
    img.dataset.is = 'shown';
    img.src = URL.createObjectURL(blob);
  } catch (e) {
    near.unobserve(img);
    img.replaceWith(el('p', 'dim', img.alt + ' is not shown: ' + e));
  }
}

function hideImage(img) {
  if (img.dataset.is === 'shown') {
    img.style.height = img.clientHeight + 'px';
    URL.revokeObjectURL(img.src);
    img.removeAttribute('src');
  }
  delete img.dataset.is;
}

// ---- changed files, running commands

function diffOf(head, text) {
  const pre = el('pre', 'whole lines');
  pre.tabIndex = 0;
  put(pre, head, true);
  for (const line of text.replace(/\n+$/, '').split('\n')) {
    const kind = { '+': 'add', '-': 'del', '@': 'hunk' }[line[0]] || '';
    pre.append(el('span', kind, line || ' ', true));
  }
  return pre;
}

// One after the other, those that come near the screen.
let diffs = Promise.resolve();
function soonDiff(li) {
  near.unobserve(li);
  diffs = diffs.then(() => li.isConnected && showDiff(li)).catch(() => { /* it is not known any more */ });
}

async function showDiff(li) {
  const { files, more } = await get(of(li.dataset.session, '/calls/' + li.dataset.call + '/diff'));
  if (li.querySelector('.diff')) return;
  const pinned = atEnd();
  for (const file of files.slice(0, MAX_FILES)) {
    const box = el(file.diff ? 'details' : 'p', 'diff');
    const head = box.appendChild(el(file.diff ? 'summary' : 'span', 'dim', file.path + '  ' + file.figures));
    head.setAttribute('aria-label', 'Changes of ' + file.path + ', ' + file.figures);
    if (file.diff) {
      const body = file.diff.replace(/^(?:--- .*\n\+\+\+ .*\n)/, '');
      box.open = body.split('\n').length <= SHORT_DIFF;
      box.append(diffOf('', body));
    }
    li.append(box);
  }
  const rest = files.length + more - MAX_FILES;
  if (rest > 0) li.append(el('p', 'dim', rest + ' more files changed'));
  if (pinned) toEnd();
}

const ESCAPES = /\u001b(?:\[[0-9;?]*[ -\/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|.)/g;

// A command that runs is shown once: below the conversation, with its output. A call is again where
// it was when it ends.
function over(mine, li) {
  for (const [run, of] of mine.runs) {
    if (of !== li) continue;
    mine.runs.delete(run);
    li.hidden = false;
    for (const row of [...$('running').children]) if (row.dataset.key === run) row.remove();
  }
}

async function running(mine) {
  let found;
  try { found = await get('/ps?tail=' + TAIL + '&session=' + encodeURIComponent(mine.id)); } catch { return; }
  if (mine.signal.aborted) return;
  const pinned = atEnd();
  const read = new Set([...$('running').querySelectorAll('pre')].filter((pre) => pre.scrollHeight - pre.scrollTop - pre.clientHeight > 30));
  renew($('running'), found.filter((one) => one.kind !== 'server'), (one) => one.id, (one) => {
    const li = el('li', 'call');
    const row = li.appendChild(el('div', 'row'));
    const what = row.appendChild(el('span'));
    what.append(el('span', 'verb', one.kind === 'command' ? 'running' : one.kind), el('code', '', one.command.split('\n')[0].slice(0, 200), true), el('span', 'end', clock(Date.now() - one.since_ms)));
    const stop = row.appendChild(el('button', 'changes', 'Stop command'));
    stop.setAttribute('aria-label', 'Stop ' + one.command.slice(0, 60));
    stop.addEventListener('click', async () => {
      try { await send('/ps/' + one.id + '/stop', {}); } catch (e) { $('why').textContent = 'Not stopped: ' + e; }
      running(mine);
    });
    if (one.tail) { const pre = li.appendChild(el('pre', 'out', one.tail.replace(ESCAPES, '').replace(/\n$/, ''))); pre.tabIndex = 0; }
    return li;
  });
  for (const [run, li] of mine.runs) li.hidden = found.some((one) => one.id === run);
  for (const pre of $('running').querySelectorAll('pre')) if (!read.has(pre)) pre.scrollTop = pre.scrollHeight;
  if (pinned) toEnd();
}

// ---- rename, fork, compact, rewind

const goTo = (id) => { location.hash = 's=' + id; };

async function order(act) {
  $('why').textContent = '';
  try { await act(view); } catch (e) { $('why').textContent = String(e); }
}

$('rename').addEventListener('submit', (e) => {
  e.preventDefault();
  order(async (mine) => {
    sent(await send(of(mine.id), { title: $('new-title').value }, 'PATCH'));
    $('menu').open = false;
    await about(mine);
  });
});
document.addEventListener('click', (e) => { if (!$('menu').contains(e.target)) $('menu').open = false; });
$('fork').addEventListener('click', () => order(async (mine) => goTo((await send(of(mine.id, '/fork'), {})).session)));
$('compact').addEventListener('click', () => order(async (mine) => sent(await send(of(mine.id, '/compact'), { start: true }))));

let rewinding = null;      // where to: { mine, entry }

function offerRewind(mine, entry, words) {
  rewinding = { mine, entry };
  put($('rewind-to'), 'Rewind to before “' + words.split('\n')[0].slice(0, 80) + '”', false, true);
  $('rewind').hidden = false;
  $('rewind-to').focus();
  $('rewind').scrollIntoView({ block: 'nearest' });
  previewRewind();
}

async function previewRewind() {
  const { mine, entry } = rewinding;
  const what = $('rewind-what').value;
  const now = rewinding = { mine, entry };
  $('rewind-it').disabled = true;
  put($('rewind-preview'), 'looking at the files…', false, true);
  let text;
  try {
    const found = await complete((await ask('POST', of(mine.id, '/rewind'), { entry, what, preview: true }, null, SLOW)).json());
    if (now === rewinding) $('rewind-it').disabled = false;
    const lines = found.changes.slice(0, 200).map((one) => (one.what === 'remove' ? 'removes ' : 'restores ') + one.path + (one.figures ? '  ' + one.figures : ''));
    if (found.changes.length > 200) lines.push('and ' + (found.changes.length - 200) + ' more files');
    lines.push(...found.kept.slice(0, 50).map((one) => 'stays: ' + one.path + ' (' + one.why + ')'), ...found.warnings);
    if (what !== 'files') lines.push('The conversation up to here becomes a new session. This one stays.');
    text = lines.join('\n') || 'No file differs.';
  } catch (e) { text = String(e); }
  if (now !== rewinding) return;
  put($('rewind-preview'), text, true, true);
  $('rewind').scrollIntoView({ block: 'end' });
}

$('rewind-what').addEventListener('change', previewRewind);
$('rewind-not').addEventListener('click', () => { $('rewind').hidden = true; rewinding = null; });
$('rewind-fork').addEventListener('click', () => order(async () => goTo((await send(of(rewinding.mine.id, '/fork'), { at: rewinding.entry })).session)));
$('rewind-it').addEventListener('click', () => order(async () => {
  const { mine, entry } = rewinding;
  $('rewind-it').disabled = true;
  const done = await send(of(mine.id, '/rewind'), { entry, what: $('rewind-what').value });
  $('rewind').hidden = true;
  if (done.session) goTo(done.session);
  if (done.error) $('why').textContent = 'No file was restored: ' + done.error;
}));

// ---- questions

function lines(pre, text, cls, sign) {
  for (const line of String(text).replace(/\n$/, '').split('\n')) pre.append(el('span', cls, sign + line + '\n', true));
}

// All of it: what was not seen cannot be allowed.
function whole(q) {
  const pre = el('pre', 'whole');
  pre.tabIndex = 0;
  const a = q.arguments;
  if (q.tool === 'bash' && a && typeof a.command === 'string') {
    put(pre, a.command, true);
    // The text above the command says its access.
    const more = Object.keys(a).filter((key) => key !== 'command' && !(key === 'access' && a.access === q.access && q.access_text));
    if (more.length) put(pre, '\n' + more.map((key) => key + ': ' + JSON.stringify(a[key])).join('\n'), true);
  } else if (q.tool === 'edit' && a && Array.isArray(a.edits)) {
    for (const edit of a.edits) {
      lines(pre, edit.old, 'del', '- ');
      lines(pre, edit.new, 'add', '+ ');
      if (edit.all) put(pre, 'everywhere in the file\n');
    }
  } else if (q.tool === 'write' && a && typeof a.content === 'string') {
    lines(pre, a.content, 'add', '+ ');
  } else {
    put(pre, typeof a === 'string' ? a : JSON.stringify(a, null, 2), true);
  }
  return pre;
}

// What it changes in the file as it is now; what was asked stays below it. Where that is not to be
// had, as with a link that only shows, what was asked is all there is.
async function compare(mine, q, pre, title, isLate) {
  let found;
  try { found = await get(of(mine.id, '/calls/' + encodeURIComponent(q.call) + '/change')); } catch { return; }
  if (isLate() || !pre.isConnected) return;
  if (found.is_new) title.append(' · new file');
  else if (found.why) pre.before(sentence(el('p', 'dim'), found.why));
  if (typeof found.diff !== 'string') return;
  const count = (sign) => found.diff.split('\n').filter((line) => line[0] === sign).length;
  title.append(' · +' + count('+') + ' −' + count('-'));
  if (found.is_new) return;
  const diff = diffOf('', found.diff);
  const asked = el('details');
  pre.before(diff, asked);
  asked.append(el('summary', '', q.tool === 'write' ? 'The whole new file' : 'The requested edits'), pre);
}

// ---- what a server, or the model, asks in the middle of a call

function asker(form) {
  return form.server || 'The agent';
}

// A form in one line. Of several questions of the model it names the first.
function inLine(form, verb, line) {
  const several = form.server ? [] : (form.wanted.fields || []).filter((f) => !f.name.includes('_'));
  const text = several.length > 1 ? (several[0].description || several[0].title) + ' · ' + several.length + ' questions' : line;
  return asker(form) + ' ' + verb + ': ' + text;
}

// The options of a question of the model, each a button. `read` gives the pressed ones.
function options(f, box, label) {
  const group = el('div', 'options');
  group.setAttribute('role', 'group');
  label.id = label.htmlFor;
  label.htmlFor = '';
  group.setAttribute('aria-labelledby', label.id);
  const several = f.kind === 'some_of';
  const isOn = (one) => one.getAttribute('aria-pressed') === 'true';
  const buttons = f.choices.map((c) => {
    const one = el('button');
    one.type = 'button';
    one.setAttribute('aria-pressed', String([].concat(f.default || []).includes(c.value)));
    const more = c.label.startsWith(c.value + ': ') ? c.label.slice(c.value.length + 2) : '';
    one.append(el('strong', '', more ? c.value : c.label));
    if (more) one.append(el('span', 'dim', more));
    one.addEventListener('click', () => {
      const on = !isOn(one);
      for (const other of several ? [one] : buttons) other.setAttribute('aria-pressed', String(on && other === one));
      group.dispatchEvent(new Event('input', { bubbles: true }));
    });
    return one;
  });
  group.append(...buttons);
  box.append(group);
  return () => {
    const values = f.choices.filter((c, n) => isOn(buttons[n])).map((c) => c.value);
    return values.length ? (several ? values : values[0]) : undefined;
  };
}

function field(q, f, place) {
  const id = 'field-' + q.call + '-' + q.asked + '-' + place;
  const box = el('div', 'field');
  const label = el('label', '', (f.title || f.name) + (f.is_required ? ' (required)' : ''));
  label.htmlFor = id;
  box.append(label);
  if (f.description) box.append(el('p', q.form.server ? 'dim' : '', f.description));
  if (!q.form.server && f.choices) return { box, name: f.name, title: f.title || f.name, read: options(f, box, label) };
  const choice = (value, text) => { const one = el('option', '', text); one.value = value; return one; };
  let input, read;
  if (f.kind === 'some_of') {
    input = el('div');
    input.id = id;
    const ticks = f.choices.map((c, n) => {
      const tick = el('input');
      tick.type = 'checkbox';
      tick.id = id + '-' + n;
      tick.checked = (f.default || []).includes(c.value);
      const name = el('label', 'tick');
      name.append(tick, el('span', '', c.label));
      input.append(name);
      return tick;
    });
    const begun = () => JSON.stringify(f.choices.filter((c) => (f.default || []).includes(c.value)).map((c) => c.value));
    read = () => {
      const some = f.choices.filter((c, n) => ticks[n].checked).map((c) => c.value);
      return some.length || f.is_required || JSON.stringify(some) !== begun() ? some : undefined;
    };
  } else if (f.kind === 'one_of' || f.kind === 'yes_no') {
    input = el('select');
    const choices = f.kind === 'yes_no' ? [['true', 'yes'], ['false', 'no']] : f.choices.map((c, n) => [String(n), c.label]);
    input.append(choice('', '—'), ...choices.map(([value, text]) => choice(value, text)));
    const at = f.kind === 'yes_no' ? (f.default === undefined ? '' : String(f.default))
      : f.choices.findIndex((c) => c.value === f.default) < 0 ? '' : String(f.choices.findIndex((c) => c.value === f.default));
    input.value = at;
    read = () => (input.value === '' ? undefined : f.kind === 'yes_no' ? input.value === 'true' : f.choices[Number(input.value)].value);
  } else {
    input = el('input');
    if (f.kind === 'number') input.inputMode = 'decimal';
    else if (f.format === 'email') input.type = 'email';
    input.value = (f.default === undefined ? '' : String(f.default));
    read = () => {
      const text = input.value;
      if (f.kind === 'number') {
        if (!text.trim()) return undefined;
        return Number.isFinite(Number(text)) ? Number(text) : text;
      }
      return text === '' && (f.is_required || f.default === undefined) ? undefined : text;
    };
  }
  input.id = id;
  box.append(input);
  return { box, name: f.name, title: f.title || f.name, read };
}

// The questions of the model one after the other, as on the screen: each is answered or skipped on
// purpose, and after several the last step shows what will be sent.
function inSteps(form, fields, yes, send) {
  const questions = fields.filter((one) => !one.name.includes('_')).map((one) => {
    const parts = fields.filter((other) => other === one || other.name === one.name + '_other');
    const box = el('div');
    box.append(...parts.map((part) => part.box));
    box.addEventListener('input', () => parts.forEach((part) => { part.isSkipped = false; }));
    return { box, parts, title: one.title };
  });
  const said = (q) => q.parts.filter((part) => !part.isSkipped).map((part) => part.read()).filter((value) => value !== undefined && String(value).trim());
  const last = questions.length > 1 ? questions.length : 0;
  const [all, hint, skip, back] = [el('p', 'words'), el('p', 'dim'), el('button', '', 'Skip this question'), el('button', '', 'Back')];
  skip.type = back.type = 'button';
  hint.setAttribute('role', 'alert');
  let at = 0;
  const go = (to) => {
    at = to;
    questions.forEach((q, n) => { q.box.hidden = n !== at; });
    skip.hidden = at === questions.length;
    all.hidden = !skip.hidden;
    back.hidden = !at;
    all.textContent = questions.map((q) => q.title + ': ' + (said(q).flat().join(', ') || 'skipped')).join('\n');
    yes.textContent = at < last ? 'Continue' : 'Send answers';
    hint.textContent = '';
  };
  const next = () => (at < last ? go(at + 1) : send(questions.some((q) => said(q).length) ? 'accept' : 'decline'));
  form.append(...questions.map((q) => q.box), all, hint);
  form.addEventListener('submit', () => {
    if (yes.disabled) return;
    const q = questions[at];
    if (!q || q.parts[0].isSkipped || said(q).length) next();
    else hint.textContent = 'Choose an answer first, or skip this question.';
  });
  skip.addEventListener('click', () => {
    for (const part of questions[at].parts) part.isSkipped = true;
    next();
  });
  back.addEventListener('click', () => go(at - 1));
  go(0);
  return [skip, back];
}

function formOf(mine, q) {
  const box = el('div', 'question');
  box.dataset.call = q.call;
  const wanted = q.form.wanted;
  // Several questions of the model come one after the other.
  const steps = q.form.server || !wanted.fields ? 0 : wanted.fields.filter((f) => !f.name.includes('_')).length;
  box.append(el('h3', '', (q.form.server ? 'The server ' + q.form.server : 'The agent') + ' asks you' + (steps > 1 ? ' · ' + steps + ' questions' : '')));
  if (steps < 2) box.append(el('p', 'words', q.form.message));
  const form = el('form');
  form.noValidate = true;
  let fields = [];
  if (wanted.wanted === 'form') {
    fields = wanted.fields.map((f, place) => field(q, f, place));
  } else {
    let url = null;
    try { url = new URL(wanted.url); } catch { /* shown as it is */ }
    box.append(el('p', 'dim', 'It asks you to open this address:'), put(el('pre', 'whole'), url ? url.href : wanted.url, true));
    if (url && /^https?:$/.test(url.protocol)) {
      box.append(el('p', '', 'It leads to ' + url.host));
      const link = el('a', '', 'Open it in a new tab');
      link.href = url.href;
      link.target = '_blank';
      link.rel = 'noopener noreferrer';
      box.append(link);
    }
  }
  const answers = el('div', 'answers changes');
  const yes = el('button', 'yes', wanted.wanted === 'form' ? 'Send answers' : 'Done, go on');
  const no = el('button', '', 'Decline');
  no.type = 'button';
  const buttons = [yes, no];
  const enable = (can) => { for (const one of buttons) one.disabled = !can; };
  const answer = async (what) => {
    enable(false);
    const values = {};
    for (const one of fields) {
      const value = one.isSkipped ? undefined : one.read();
      if (value !== undefined) Object.defineProperty(values, one.name, { value, enumerable: true });
    }
    try {
      sent(await send(of(mine.id, '/answers'), { call: q.call, asked: q.asked, answer: what, start: true, ...(what === 'accept' ? { values } : {}) }));
      box.append(el('p', 'dim', what === 'accept' ? 'answered' : 'declined'));
    } catch (e) {
      $('why').textContent = 'Not answered: ' + e;
      enable(true);
    }
    soonAbout(mine);
  };
  form.addEventListener('submit', (e) => e.preventDefault());
  if (fields.length && !q.form.server) {
    buttons.push(...inSteps(form, fields, yes, answer));
  } else {
    form.append(...fields.map((one) => one.box));
    form.addEventListener('submit', () => { if (!yes.disabled) answer('accept'); });
  }
  enable(false);
  setTimeout(() => enable(true), QUIET);
  no.addEventListener('click', () => answer('decline'));
  answers.append(...buttons);
  form.append(answers);
  box.append(form);
  return box;
}

// The title of the terminal.
function titleOf(q) {
  const a = q.arguments || {};
  if (q.tool === 'bash') return 'Run this command' + (a.background === true ? ' in the background' : '') + (q.no_sandbox ? ' without the sandbox?' : '?');
  if (q.tool === 'edit' && typeof a.path === 'string') return 'Change ' + a.path + '?';
  if (q.tool === 'write' && typeof a.path === 'string') return 'Write ' + a.path + '?';
  return 'Call ' + q.tool + '?';
}

// Where the path of a call leads, if that is not what the title says: it is a link.
function linkOf(q) {
  const path = (q.arguments || {}).path;
  const named = typeof path === 'string' && (path[0] === '/' ? path : q.folder + '/' + path).replace(/\/+/g, '/').replace(/(\/\.)+(?=\/)/g, '');
  return q.leads_to && q.leads_to !== named ? ' · leads to ' + q.leads_to : '';
}

// Enables the buttons that allow once the end of what is asked for was seen, as the terminal does. What
// explains a button, below it, is not asked for.
function whenSeen(box, wanted, answers, buttons, hint) {
  let [isDue, isSeen] = [false, false];
  const look = () => {
    const end = wanted.firstElementChild && wanted.querySelector('pre').getBoundingClientRect().bottom;
    isSeen = isSeen || (isDue && box.clientHeight > 0 && end < answers.getBoundingClientRect().top + 8);
    for (const one of buttons) one.disabled = !isDue || !isSeen;
    hint.hidden = !isDue || isSeen;
  };
  box.addEventListener('scroll', look);
  const sizes = new ResizeObserver(look);
  for (const one of [box, wanted]) sizes.observe(one);
  return (is) => { isDue = is; look(); };
}

function askOf(mine, q) {
  const box = el('div', 'question');
  box.dataset.call = q.call;
  box.tabIndex = 0;
  box.setAttribute('role', 'group');
  box.setAttribute('aria-label', 'Question');
  const name = 'why-' + q.call;
  const pre = whole(q);
  const title = box.appendChild(el('h3', '', titleOf(q), true));
  if (q.access_text) box.append(sentence(el('p', q.no_sandbox ? 'danger' : ''), q.access_text));
  const wanted = el('div');
  wanted.append(pre);
  box.append(put(sentence(el('p', 'dim'), q.why), linkOf(q), true), wanted);
  const answers = el('div', 'answers changes');
  const yes = el('button', 'yes', 'Allow once');
  const no = el('button', '', 'Deny');
  // The page offers no rule for a subagent, like the terminal.
  const rules = mine.parent ? [] : q.session_rules || [];
  const session = rules.map(({ rule, words }, place) => {
    const one = el('button', 'yes', 'For this session' + (place ? ', ' + words : ''));
    if (!place) sentence(box.appendChild(el('p', 'dim')), 'For this session allows ' + words);
    one.addEventListener('click', () => answer('allow', rule));
    return one;
  });
  const label = el('label', 'unseen', 'Why not: the model reads it');
  label.htmlFor = name;
  const why = el('input');
  why.id = name;
  why.placeholder = 'Why not';
  const hint = el('p', 'dim', 'Scroll to the end to allow it.');
  const allowing = whenSeen(box, wanted, answers, [yes, ...session], hint);
  const enable = (can) => { no.disabled = !can; allowing(can); };
  enable(false);
  // Nothing moves any more once it can be answered.
  let late = false;
  const compared = q.tool === 'write' || q.tool === 'edit' ? compare(mine, q, pre, title, () => late) : Promise.resolve();
  Promise.race([compared, pause(COMPARED, mine.signal)]).then(() => {
    late = true;
    setTimeout(() => enable(true), QUIET);
  });
  const answer = async (verdict, rule) => {
    enable(false);
    const reason = why.value.trim();
    try {
      sent(await send(of(mine.id, '/verdicts'), { call: q.call, verdict, start: true, ...(rule ? { rule } : {}), ...(verdict === 'deny' && reason ? { reason } : {}) }));
      answers.append(el('p', 'dim', verdict === 'allow' ? 'allowed' : 'denied'));
    } catch (e) {
      $('why').textContent = 'Not answered: ' + e;
      enable(true);
    }
    soonAbout(mine);
  };
  yes.addEventListener('click', () => answer('allow'));
  no.addEventListener('click', () => answer('deny'));
  why.addEventListener('keydown', (e) => { if (e.key === 'Enter' && !no.disabled) answer('deny'); });
  answers.append(hint, yes, ...session, no, label, why);
  box.append(answers);
  return box;
}

function drawQuestions(mine, questions) {
  const known = $('questions').children.length;
  const pinned = atEnd();
  renew($('questions'), questions, (q) => q.call + ' ' + q.asked, (q) => (q.form ? formOf : askOf)(mine, q), true);
  const first = $('questions').firstElementChild;
  if (first) first.firstChild.dataset.place = questions.length > 1 ? ' · 1 of ' + questions.length : '';
  // The press that answered the question before is not an answer to this one.
  if (first && mine.front && first !== mine.front) {
    first.inert = true;
    setTimeout(() => { first.inert = false; }, QUIET);
  }
  mine.front = first;
  if (questions.length > known) {
    $('menu').open = false;
    if (pinned) toEnd();
  }
}

// ---- words and orders

function grow(box) {
  box.style.height = 'auto';
  box.style.height = Math.min(box.scrollHeight + 2, window.innerHeight * 0.4) + 'px';
}

$('text').addEventListener('input', () => { keep('words ' + view.id, $('text').value); grow($('text')); });
$('text').addEventListener('keydown', (e) => {
  const sends = e.key === 'Enter' && !e.shiftKey && !e.isComposing && matchMedia('(pointer: fine)').matches;
  if (sends || (e.key === 'Enter' && (e.ctrlKey || e.metaKey))) {
    e.preventDefault();
    $('send').requestSubmit();
  }
});

$('send').addEventListener('submit', async (e) => {
  e.preventDefault();
  const mine = view;
  const text = $('text').value;
  if (!text.trim() || $('send-it').disabled) return;
  $('send-it').disabled = true;
  $('why').textContent = '';
  try {
    sent(await send(of(mine.id, '/messages'), { text, start: true }));
    // What was typed meanwhile stays.
    const now = mine === view ? $('text').value : kept('words ' + mine.id);
    const rest = now.startsWith(text) ? now.slice(text.length) : now;
    keep('words ' + mine.id, rest);
    if (mine === view) { $('text').value = rest; grow($('text')); }
  } catch (problem) {
    $('why').textContent = 'Not sent, the text is still here: ' + problem;
  }
  $('send-it').disabled = false;
});

for (const [name, body] of [['stop', {}], ['pause', {}], ['go', { start: true }]]) {
  $(name).addEventListener('click', async () => {
    const mine = view;
    $('why').textContent = '';
    try { sent(await post(of(mine.id, '/' + name), body)); } catch (e) { $('why').textContent = String(e); }
    soonAbout(mine);
  });
}

document.addEventListener('keydown', (e) => {
  const writes = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement ? document.activeElement.tagName : '');
  if (e.key === 'Escape' && $('menu').open) { $('menu').open = false; return; }
  if (e.key === 'Escape' && view) { location.hash = ''; return; }
  if (e.key === '/' && !writes) {
    e.preventDefault();
    (view ? $('text') : $('words')).focus();
  }
});

// ---- where to

function route() {
  const hash = location.hash.slice(1);
  const given = hash.match(/(?:^|&)token=([0-9a-f]+)/i);
  if (given) {
    token = given[1];
    keep('token', token);
    const rest = hash.replace(/&?token=[0-9a-f]+/i, '').replace(/^&/, '');
    history.replaceState(null, '', location.pathname + (rest ? '#' + rest : ''));
  }
  token = token || kept('token');
  if (!token) return enter('');
  const id = location.hash.match(/^#s=([0-9a-f-]+)/i);
  id ? session(id[1]) : list();
}

$('start-prompt').value = kept('start');
window.addEventListener('hashchange', route);
route();
