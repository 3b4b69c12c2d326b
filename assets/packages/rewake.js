#!/usr/bin/env node
// Starts the program of this machine's package, with the same terminal, signals and exit code.
'use strict';
const { spawn } = require('node:child_process');
const { constants } = require('node:os');
const { isatty } = require('node:tty');

const name = `SCOPE/rewake-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/rewake`);
} catch {
  console.error(`error: the package ${name} is not installed, so there is no rewake for this system`);
  console.error('hint: install again without --omit=optional; it exists for Linux and macOS on x64 and arm64');
  process.exit(1);
}
let child;
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'];
// The keys of a terminal signal its whole group, so the program has these already.
const ofTerminal = isatty(0) ? ['SIGINT', 'SIGQUIT'] : [];
// Before the program starts: it must not survive a signal that ends this process.
for (const signal of signals) {
  process.on(signal, () => ofTerminal.includes(signal) || child.kill(signal));
}
child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
child.on('error', (error) => {
  console.error(`error: cannot start ${program}: ${error.message}`);
  process.exit(1);
});
child.on('close', (code, signal) => {
  if (signal === null) process.exit(code);
  for (const own of signals) process.removeAllListeners(own);
  process.kill(process.pid, signal);
  // A signal that does not end this process.
  setTimeout(() => process.exit(128 + constants.signals[signal]), 100);
});
