// What the server says, shown. All that it says is text, and only text: nothing of it becomes
// markup. A part of the page is touched when what it shows has changed.
'use strict';

const at = (id) => document.getElementById(id);
const known = { server: {}, devices: {}, sessions: {}, leases: {}, waiting: {}, quotas: {} };
/** The parts of the page by kind and name, and traffic as it was before. */
const shown = {
  devices: new Map(),
  sessions: new Map(),
  quotas: new Map(),
  leases: new Map(),
  waiting: new Map(),
};
const before = new Map();
let stream = null;
let pause = 1000;
let token = sessionStorage.getItem('token') || '';

const make = (tag, kind, role) => {
  const e = document.createElement(tag);
  if (kind) e.className = kind;
  if (role) e.setAttribute('role', role);
  return e;
};
const say = (e, text) => {
  if (e.textContent !== text) e.textContent = text;
};
const percent = (part) => `${Math.round(part * 100)} %`;
const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
const size = (n) => {
  let i = 0;
  while (n >= 1024 && i < units.length - 1) {
    n /= 1024;
    i += 1;
  }
  return `${i && n < 100 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
};
const count = (n) => {
  if (n >= 1e6) return `${(n / 1e6).toFixed(1)} M`;
  if (n >= 1e4) return `${(n / 1e3).toFixed(0)} k`;
  return n.toFixed(n >= 10 ? 0 : 1);
};
const clock = new Intl.DateTimeFormat([], { hour: '2-digit', minute: '2-digit', hour12: false });
const day = new Intl.DateTimeFormat([], { month: 'short', day: 'numeric' });
const since = (unix) => {
  const then = new Date(unix * 1000);
  const today = new Date().toDateString() === then.toDateString();
  return today ? clock.format(then) : `${day.format(then)}, ${clock.format(then)}`;
};

const call = (path, options = {}) => {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  return fetch(path, { ...options, headers, cache: 'no-store', credentials: 'same-origin' });
};

/** Takes what has changed into what is known. */
const take = (changes) => {
  for (const [kind, things] of Object.entries(changes)) {
    if (!(kind in known)) continue;
    for (const [name, thing] of Object.entries(things)) {
      if (thing === null) delete known[kind][name];
      else known[kind][name] = thing;
    }
  }
};

/** Keeps a part of the page for each thing, in the order of `names`. */
const keep = (kind, list, names, build) => {
  const parts = shown[kind];
  for (const [name, part] of parts) {
    if (!(name in known[kind])) {
      part.root.remove();
      parts.delete(name);
    }
  }
  let next = list.firstChild;
  for (const name of names) {
    let part = parts.get(name);
    if (!part) {
      part = build(name);
      parts.set(name, part);
    }
    if (part.root === next) next = next.nextSibling;
    else list.insertBefore(part.root, next);
  }
};

const buildDevice = () => {
  const root = make('li');
  const title = root.appendChild(make('h3'));
  const name = title.appendChild(document.createTextNode(''));
  const id = title.appendChild(make('span'));
  const bar = root.appendChild(make('div', 'bar'));
  bar.setAttribute('aria-hidden', 'true');
  const lines = [0, 1, 2].map(() => root.appendChild(make('p')));
  return { root, name, id, bar, lines, history: null };
};

/** Which part of a device each session has: what is promised, or else what it had of late. */
const partOf = (s, device) => {
  const time = s.time.find((t) => t.device === device);
  return s.share ?? (time ? time.last_minute : 0);
};

const showDevice = (name, sessions) => {
  const d = known.devices[name];
  const p = shown.devices.get(name);
  if (p.name.data !== `${d.name || d.api} `) p.name.data = `${d.name || d.api} `;
  say(p.id, d.id);
  const parts = sessions.map((s) => [s, partOf(s, name)]).filter(([, part]) => part > 0);
  while (p.bar.childElementCount > parts.length) p.bar.lastChild.remove();
  parts.forEach(([s, part], i) => {
    const piece = p.bar.children[i] || p.bar.appendChild(make('i'));
    const width = `${Math.min(100, part * 100).toFixed(1)}%`;
    if (piece.style.width !== width) piece.style.width = width;
    const title = `${s.program} of ${s.user || s.tenant}: ${percent(part)}`;
    if (piece.title !== title) piece.title = title;
  });
  const uses = d.leased_by
    ? `leased by ${d.leased_by}`
    : `${d.sessions} session${d.sessions === 1 ? '' : 's'}`;
  const promised =
    d.share_promised > 0 ? `, ${percent(d.share_promised)} of its time promised` : '';
  say(p.lines[0], uses + promised + (d.yours ? '' : ', not for you'));
  const t = d.telemetry || {};
  const used = t.memory_used === undefined ? '' : `${size(t.memory_used)} of `;
  const kept = d.memory_promised ? `, ${size(d.memory_promised)} promised` : '';
  say(p.lines[1], `Memory: ${used}${size(d.memory)}${kept}`);
  const senses = [];
  if (t.utilization !== undefined) senses.push(`${percent(t.utilization)} busy`);
  if (t.temperature_celsius !== undefined) senses.push(`${t.temperature_celsius} °C`);
  if (t.power_watts !== undefined) senses.push(`${Math.round(t.power_watts)} W`);
  say(p.lines[2], senses.join(', ') || 'no sensors');
};

const cell = (row, is, tag = 'td') => {
  const c = row.appendChild(make(tag, '', tag === 'th' ? 'rowheader' : 'cell'));
  if (tag === 'th') c.scope = 'row';
  c.dataset.is = is;
  const inner = c.appendChild(make('span'));
  return {
    cell: c,
    text: inner.appendChild(document.createTextNode('')),
    small: inner.appendChild(make('small')),
  };
};
const fill = (c, text, small = '') => {
  if (c.text.data !== text) c.text.data = text;
  say(c.small, small);
};

const end = async (name) => {
  const s = known.sessions[name];
  if (
    !s ||
    !confirm(`End ${s.program} of ${s.user || s.tenant || 'nobody known'}? Its program fails.`)
  )
    return;
  const said = await call(`/v1/sessions/${encodeURIComponent(name)}`, { method: 'DELETE' });
  if (!said.ok) link((await said.json()).detail, true);
};

const buildSession = (name) => {
  const root = make('tr', '', 'row');
  const program = cell(root, 'Program', 'th');
  const [who, devices, part, memory, does, start] = [
    'Who',
    'Devices',
    'Part',
    'Memory',
    'Does',
    'Since',
  ].map((is) => cell(root, is));
  const ends = root.appendChild(make('td', 'ends', 'cell'));
  const button = ends.appendChild(make('button'));
  button.type = 'button';
  button.textContent = 'End';
  button.addEventListener('click', () => end(name));
  return { root, program, who, devices, part, memory, does, start, button };
};

/** What a session spends its time on, as far as that is known. */
const doing = (s, now) => {
  const old = before.get(s.name);
  const rates = { text: old ? old.text : '' };
  if (!old || s.traffic.records !== old.records || now - old.at > 9000) {
    if (old && now > old.at) {
      const per = 1000 / (now - old.at);
      const records = (s.traffic.records - old.records) * per;
      const trips = (s.traffic.round_trips - old.trips) * per;
      rates.text = records > 0 ? `${count(records)} calls/s, ${count(trips)} waited for` : 'idle';
    }
    before.set(s.name, {
      at: now,
      records: s.traffic.records,
      trips: s.traffic.round_trips,
      text: rates.text,
    });
  }
  const had = s.time.map((t) => `${percent(t.last_minute)} of ${t.device}`).join(', ');
  const total = s.time.reduce((n, t) => n + t.used + t.waited, 0);
  const waited = s.time.reduce((n, t) => n + t.waited, 0);
  const turns = total > 1 ? `, ${percent(waited / total)} of that time waiting for turns` : '';
  return had
    ? `${rates.text ? `${rates.text}; ` : ''}had ${had} of the last minute${turns}`
    : rates.text;
};

const showSession = (name, now) => {
  const s = known.sessions[name];
  const p = shown.sessions.get(name);
  fill(p.program, s.program || s.api, s.pid ? `process ${s.pid}, ${s.api}` : s.api);
  fill(
    p.who,
    `${s.user}${s.host ? `@${s.host}` : ''}`,
    [s.tenant, s.token].filter(Boolean).join(', '),
  );
  fill(p.devices, s.devices.join(', '), s.lease ? `lease ${s.lease}` : '');
  fill(
    p.part,
    s.share === null ? 'shared' : `${percent(s.share)}${s.lent ? ', lent' : ''}`,
    s.priority ? `priority ${s.priority}` : '',
  );
  const most =
    s.memory.most === null
      ? ''
      : `${s.memory.promised ? 'promised' : 'at most'} ${size(s.memory.most)}`;
  fill(p.memory, size(s.memory.used), most);
  fill(p.does, s.waits ? `waits ${s.waits}` : 'runs', doing(s, now));
  p.does.cell.classList.toggle('waits', Boolean(s.waits));
  fill(p.start, since(s.opened));
  const label = `End ${s.program} of ${s.user || s.tenant}`;
  if (p.button.getAttribute('aria-label') !== label) p.button.setAttribute('aria-label', label);
};

const buildQuota = () => {
  const root = make('tr', '', 'row');
  const tenant = cell(root, 'Tenant', 'th');
  const [sessions, leases, memory, most] = ['Sessions', 'Leased', 'Memory', 'Most'].map((is) =>
    cell(root, is),
  );
  return { root, tenant, sessions, leases, memory, most };
};

const showQuota = (name) => {
  const q = known.quotas[name];
  const p = shown.quotas.get(name);
  const used = (u) => (u.most === null ? `${u.used}` : `${u.used} of ${u.most}`);
  fill(p.tenant, q.tenant || 'everybody', q.admin ? 'admin' : '');
  fill(p.sessions, used(q.sessions));
  fill(p.leases, used(q.leases));
  fill(p.memory, size(q.memory.used));
  const most = [];
  if (q.memory.most !== null) most.push(size(q.memory.most));
  if (q.share !== null) most.push(`${percent(q.share)} of a device's time`);
  if (q.priority !== null) most.push(`priority ${q.priority}`);
  fill(p.most, most.join(', ') || 'anything');
};

/** What somebody has, or wants, of each device. */
const partText = (p) => {
  if (p.whole) return 'all';
  const parts = [];
  if (p.memory !== null) parts.push(size(p.memory));
  if (p.share !== null) parts.push(`${percent(p.share)} of its time`);
  return parts.join(', ') || 'shared';
};

const buildLease = () => {
  const root = make('tr', '', 'row');
  const holder = cell(root, 'Holder', 'th');
  const [devices, part, sessions, ends] = ['Devices', 'Of each', 'Sessions', 'Ends'].map((is) =>
    cell(root, is),
  );
  return { root, holder, devices, part, sessions, ends };
};

const showLease = (name) => {
  const l = known.leases[name];
  const p = shown.leases.get(name);
  fill(p.holder, l.holder, [l.tenant, `lease ${l.name}`].filter(Boolean).join(', '));
  fill(p.devices, l.devices.join(', '));
  fill(p.part, partText(l.part));
  fill(p.sessions, `${l.sessions}`);
  fill(p.ends, l.ends === null ? 'with its program' : since(l.ends));
};

const buildWaiting = () => {
  const root = make('tr', '', 'row');
  const place = cell(root, 'Place', 'th');
  const [who, wants, waits, start] = ['Who', 'Wants', 'Waits', 'Since'].map((is) => cell(root, is));
  return { root, place, who, wants, waits, start };
};

const showWaiting = (name) => {
  const w = known.waiting[name];
  const p = shown.waiting.get(name);
  fill(p.place, `${w.place}`, w.priority ? `priority ${w.priority}` : '');
  fill(p.who, w.holder, w.tenant);
  const of = w.part.whole ? '' : `${partText(w.part)} of `;
  fill(p.wants, `${of}${w.wanted} of devices ${w.devices.join(', ')}`);
  fill(p.waits, w.waits, w.offered.length ? `on offer: ${w.offered.join(', ')}` : '');
  fill(p.start, since(w.since));
};

const show = (changes) => {
  const now = performance.now();
  const server = known.server.it || {};
  say(at('host'), server.host || '');
  const draining = server.draining ? ', takes nothing new' : '';
  say(at('about'), `${server.version || ''}, at ${server.address || ''}${draining}`);
  const devices = Object.keys(known.devices).sort((a, b) =>
    a.localeCompare(b, 'en', { numeric: true }),
  );
  keep('devices', at('devices'), devices, buildDevice);
  at('no-devices').hidden = devices.length > 0;
  const all = Object.values(known.sessions).sort(
    (a, b) => a.opened - b.opened || (a.name < b.name ? -1 : 1),
  );
  const of = new Map(devices.map((d) => [d, []]));
  for (const s of all) for (const d of s.devices) of.get(d)?.push(s);
  const moved = new Set(Object.keys(changes.devices || {}));
  for (const name of Object.keys(changes.sessions || {})) {
    const s = known.sessions[name];
    if (s) s.devices.forEach((d) => moved.add(d));
    else {
      before.delete(name);
      devices.forEach((d) => moved.add(d));
    }
  }
  for (const name of devices) if (moved.has(name)) showDevice(name, of.get(name));
  keep(
    'sessions',
    at('rows'),
    all.map((s) => s.name),
    buildSession,
  );
  for (const name of Object.keys(changes.sessions || {}))
    if (known.sessions[name]) showSession(name, now);
  say(at('count'), all.length ? `(${all.length})` : '');
  at('no-sessions').hidden = all.length > 0;
  if (changes.quotas) {
    const names = Object.keys(known.quotas).sort();
    keep('quotas', at('quotas'), names, buildQuota);
    names.forEach(showQuota);
    at('quotas-part').hidden = names.length === 0;
  }
  if (changes.leases) {
    const names = Object.keys(known.leases).sort();
    keep('leases', at('leases'), names, buildLease);
    names.forEach(showLease);
    at('leases-part').hidden = names.length === 0;
  }
  if (changes.waiting) {
    const line = Object.values(known.waiting).sort((a, b) => a.place - b.place);
    const names = line.map((w) => w.name);
    keep('waiting', at('waiting'), names, buildWaiting);
    names.forEach(showWaiting);
    say(at('waiting-count'), `(${names.length})`);
    at('waiting-part').hidden = names.length === 0;
  }
};

/** Says whether what is shown is so. */
const link = (text, lost) => {
  say(at('link'), text);
  at('link').classList.toggle('lost', Boolean(lost));
};

const path = (numbers, most) => {
  let d = '';
  let pen = 'M';
  numbers.forEach((n, i) => {
    if (n === null) {
      pen = 'M';
      return;
    }
    d += `${pen}${i} ${(30 - (28 * Math.min(n, most)) / most).toFixed(1)}`;
    pen = 'L';
  });
  return d;
};

const showHistory = async () => {
  if (document.hidden) return;
  const said = await call('/v1/history').catch(() => null);
  if (!said?.ok) return;
  const history = await said.json();
  for (const past of history.devices) {
    const p = shown.devices.get(past.device);
    const there = past.utilization.some((n) => n !== null);
    const main = there ? past.utilization : past.sessions;
    if (!p || past.sessions.length < 2) continue;
    if (!p.history) {
      const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
      svg.setAttribute('preserveAspectRatio', 'none');
      svg.setAttribute('role', 'img');
      const lines = [0, 1].map(() =>
        svg.appendChild(document.createElementNS('http://www.w3.org/2000/svg', 'path')),
      );
      p.root.appendChild(svg);
      p.history = { svg, lines };
    }
    const { svg, lines } = p.history;
    svg.setAttribute('viewBox', `0 0 ${Math.max(1, main.length - 1)} 31`);
    const most = there ? 1 : Math.max(1, ...main.map((n) => n ?? 0));
    lines[0].setAttribute('d', path(main, most));
    lines[1].setAttribute('d', path(past.memory, 1));
    const some = main.filter((n) => n !== null);
    const mean = some.reduce((n, m) => n + m, 0) / Math.max(1, some.length);
    const hours = Math.max(1, Math.round((main.length * history.step) / 3600));
    const what = there ? `${percent(mean)} busy` : `${mean.toFixed(1)} sessions`;
    svg.setAttribute(
      'aria-label',
      `${what} on average over the last ${hours} h; the second line is memory`,
    );
  }
};

const listen = async () => {
  const mine = new AbortController();
  stream = mine;
  try {
    const said = await call('/v1/events', { signal: mine.signal });
    if (said.status === 401) {
      at('login').hidden = false;
      link(token ? 'that token is not good' : 'the server asks who you are', true);
      stream = null;
      return;
    }
    if (!said.ok) throw new Error((await said.json()).detail);
    at('login').hidden = true;
    for (const kind of Object.keys(known)) known[kind] = {};
    const reader = said.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    let first = true;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new Error('the connection has ended');
      text += value;
      const parts = text.split('\n\n');
      text = parts.pop();
      for (const part of parts) {
        const data = part.split('\n').find((l) => l.startsWith('data: '));
        if (!data) continue;
        const changes = JSON.parse(data.slice(6));
        take(changes);
        show(changes);
        pause = 1000;
        if (first) {
          link('live');
          showHistory();
          first = false;
        }
      }
    }
  } catch (e) {
    if (mine.signal.aborted) return;
    stream = null;
    link(`not live: ${e.message}; trying again`, true);
    setTimeout(() => {
      if (!document.hidden && !stream) listen();
    }, pause);
    pause = Math.min(30000, pause * 2);
  }
};

at('login').addEventListener('submit', (e) => {
  e.preventDefault();
  token = at('token').value.trim();
  sessionStorage.setItem('token', token);
  at('token').value = '';
  listen();
});
// Nobody looks: nothing is asked, and the server is told nothing is wanted.
document.addEventListener('visibilitychange', () => {
  if (document.hidden) {
    stream?.abort();
    stream = null;
    link('paused');
  } else if (!stream && at('login').hidden) {
    listen();
  }
});
setInterval(showHistory, 60000);
listen();
