#!/usr/bin/env node
// Starts the binary from the platform package, with the same terminal, signals and exit code.
'use strict';
const { spawn } = require('node:child_process');
const { constants } = require('node:os');
const { isatty } = require('node:tty');

const name = `SCOPE/rewake-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/rewake`);
} catch {
  console.error(`error: the platform package ${name} is not installed`);
  console.error('hint: reinstall without --omit=optional (supported: Linux and macOS, x64 and arm64)');
  process.exit(1);
}
let child;
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'];
// Ctrl+C and Ctrl+\ signal the whole foreground process group, so the program receives these.
const terminalSignals = isatty(0) ? ['SIGINT', 'SIGQUIT'] : [];
// Before the program starts: it must not survive a signal that ends this process.
for (const signal of signals) {
  process.on(signal, () => terminalSignals.includes(signal) || child.kill(signal));
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
