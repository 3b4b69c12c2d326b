// Markdown as nodes. Text only ever gets into text nodes, by `put`: HTML in it is shown as it is
// typed. Links lead to http and https alone. Every pattern reads a text in about one pass.
'use strict';

const markdown = (() => {

const MAX_DEPTH = 8;         // lists and quotes in each other
const MAX_MARKDOWN = 200000; // characters: a longer text is shown as it is

const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
const RULE = /^ {0,3}(?:-[ \t]*-[ \t]*-[- \t]*|\*[ \t]*\*[ \t]*\*[* \t]*|_[ \t]*_[ \t]*_[_ \t]*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:[ \t]+(.*)|)$/;
const COLUMNS = /^[ \t]*\|?(?:[ \t]*:?-+:?[ \t]*\|)+(?:[ \t]*:?-+:?[ \t]*)?$/;
const INLINE = /\\([!-/:-@[-`{-~])|(`+)|\*\*((?:[^*]|\*(?!\*))+)\*\*|(?<![\w*])\*([^\s*](?:[^*]*[^\s*])?)\*(?!\*)|(?<!\w)_([^\s_](?:[^_]*[^\s_])?)_(?!\w)|~~([^~]+)~~|\[([^\]\n]{1,500})\]\(([^\s()<>]{1,2000})\)|(https?:\/\/[^\s<>()"'`]{0,2000}[^\s<>()"'`.,;:!?*_])/g;

function markdown(text) {
  const into = el('div', 'md');
  if (text.length > MAX_MARKDOWN) return el('p', 'words', text);
  blocks(into, text.replace(/\r\n?/g, '\n').split('\n'), 0);
  return into;
}

const begins = (line) => FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);

function blocks(into, lines, depth) {
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    let found;
    if (!line.trim()) at += 1;
    else if (depth > MAX_DEPTH) { into.append(el('p', '', lines.slice(at).join('\n'))); return; }
    else if ((found = FENCE.exec(line))) at = fence(into, lines, at, found[1]);
    else if ((found = HEADING.exec(line))) {
      inline(into.appendChild(el('h' + Math.min(6, found[1].length + 2))), found[2].replace(/[ \t]+#+[ \t]*$/, ''), 0);
      at += 1;
    } else if (RULE.test(line)) { into.append(el('hr')); at += 1; }
    else if (QUOTE.test(line)) {
      const inner = [];
      for (; at < lines.length && (found = QUOTE.exec(lines[at])); at += 1) inner.push(found[1]);
      blocks(into.appendChild(el('blockquote')), inner, depth + 1);
    } else if (ITEM.test(line)) at = list(into, lines, at, depth);
    else if (line.includes('|') && COLUMNS.test(lines[at + 1] || '')) at = table(into, lines, at);
    else {
      const from = at;
      for (at += 1; at < lines.length && lines[at].trim() && !begins(lines[at]); at += 1);
      inline(into.appendChild(el('p')), lines.slice(from, at).join('\n'), 0);
    }
  }
}

function fence(into, lines, at, mark) {
  const ends = (line) => { const t = line.trim(); return t.length >= mark.length && t === mark[0].repeat(t.length); };
  const from = at + 1;
  for (at = from; at < lines.length && !ends(lines[at]); at += 1);
  const pre = into.appendChild(el('pre', 'code'));
  pre.tabIndex = 0;
  put(pre, lines.slice(from, at).join('\n'), true);
  return at + 1;
}

function list(into, lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  const ordered = /\d/.test(first[2]);
  const all = into.appendChild(el(ordered ? 'ol' : 'ul'));
  if (ordered) all.start = parseInt(first[2], 10);
  let found;
  while (at < lines.length && (found = ITEM.exec(lines[at])) && /\d/.test(found[2]) === ordered && !RULE.test(lines[at])) {
    const inner = [found[3] || ''];
    const indent = found[1].length;
    for (at += 1; at < lines.length; at += 1) {
      const line = lines[at];
      const deep = line.length - line.trimStart().length > indent;
      const next = lines[at + 1] || '';
      if (line.trim() ? !deep && begins(line) : !(next.trim() && next.length - next.trimStart().length > indent)) break;
      if (line.trim() && !deep && !inner[inner.length - 1].trim()) break;
      inner.push(line.slice(Math.min(line.length - line.trimStart().length, indent + 2)));
    }
    const item = all.appendChild(el('li'));
    const box = /^\[([ xX])\] /.exec(inner[0]);
    if (box) inner[0] = (box[1] === ' ' ? '☐ ' : '☑ ') + inner[0].slice(4);
    blocks(item, inner, depth + 1);
    while (at < lines.length && !lines[at].trim() && ITEM.test(lines[at + 1] || '')) at += 1;
  }
  return at;
}

function table(into, lines, at) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, '').split('|');
  const all = into.appendChild(el('div', 'wide')).appendChild(el('table'));
  const row = (line, name) => {
    const tr = all.appendChild(el('tr'));
    for (const cell of cells(line)) inline(tr.appendChild(el(name)), cell.trim(), 0);
  };
  row(lines[at], 'th');
  for (at += 2; at < lines.length && lines[at].includes('|'); at += 1) row(lines[at], 'td');
  return at;
}

function inline(into, text, depth) {
  if (depth > MAX_DEPTH) { put(into, text); return; }
  const missing = new Set();   // lengths of backticks that nothing closes
  let from = 0;
  const within = (name, inner) => inline(into.appendChild(el(name)), inner, depth + 1);
  const pattern = new RegExp(INLINE);
  for (let found; (found = pattern.exec(text));) {
    const [whole, escaped, ticks, strong, em, under, gone, label, target, url] = found;
    let end = found.index + whole.length;
    let code = null;
    if (ticks) {
      const close = missing.has(ticks.length) ? null : new RegExp('(?<!`)' + ticks + '(?!`)', 'g');
      if (close) close.lastIndex = end;
      const closed = close && close.exec(text);
      if (!closed) { missing.add(ticks.length); continue; }
      code = text.slice(end, closed.index);
      end = pattern.lastIndex = closed.index + ticks.length;
    }
    if (found.index > from) put(into, text.slice(from, found.index));
    from = end;
    if (escaped) put(into, escaped);
    else if (code !== null) into.append(el('code', '', code, true));
    else if (strong) within('strong', strong);
    else if (em || under) within('em', em || under);
    else if (gone) within('s', gone);
    else link(into, label || url, target || url, depth);
  }
  if (from < text.length) put(into, text.slice(from));
}

function link(into, label, target, depth) {
  let url = null;
  try { url = new URL(target); } catch { /* it is a path, or nothing */ }
  const leads = url && /^https?:$/.test(url.protocol);
  const made = into.appendChild(el(leads ? 'a' : 'span'));
  if (leads) {
    made.href = made.title = url.href;
    made.target = '_blank';
    made.rel = 'noopener noreferrer';
  }
  if (label === target) put(made, label);
  else inline(made, label, depth + 1);
  if (!leads && label !== target) put(into, ' (' + target + ')');
}

return markdown;
})();
