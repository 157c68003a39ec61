#!/usr/bin/env node
import {readFileSync, readlinkSync, writeSync} from 'node:fs'
import module from 'node:module'
import {handleEarlySignals} from '../dist/lib/cli/base/early-signals.js'

const isCompletion = process.argv[2] === '__complete'
if (!isCompletion) handleEarlySignals() // a shell that completes a word has no use for words about it

module.enableCompileCache?.() // absent on Node 20
process.env.NODE_ENV ??= 'production' // otherwise React loads its development build
process.env.OCLIF_DISABLE_ENGINE_WARNING ??= '1' // oclif declares Node 22 but runs on 20
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'

// Ink's colour library reads neither NO_COLOR nor a flag that FORCE_COLOR contradicts; FORCE_COLOR=0 is understood by all.
const noColor = process.env.NO_COLOR && process.env.FORCE_COLOR === undefined
if (noColor || process.argv.includes('--no-color')) process.env.FORCE_COLOR = '0'

for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', error => {
    // The reader has seen enough (`zael … | head -1`); without this, oclif waits for a pipe that is gone.
    if (error.code === 'EPIPE') process.exit(process.exitCode ?? 0)
    // A full disk, for example; nothing of what is written through streams can be relied on from here.
    const reason = process.env.ZAEL_DEBUG === '1' ? error.stack : error.message
    if (stream !== process.stderr) writeSync(process.stderr.fd, `Error: The output could not be written: ${reason}\n`)
    process.exit(1)
  })
}

if (!isCompletion && isStdoutClosed()) {
  writeSync(process.stderr.fd, 'Error: Standard output is closed. Nothing was done.\nTry: > /dev/null instead of >&-\n')
  process.exit(1)
}

/**
 * Node opens /dev/null for reading and writing in the place of a closed stdout. A shell opens it only for writing, and
 * passes on its own stdout otherwise. Other programs may pass a read-write /dev/null on purpose. Linux only.
 */
function isStdoutClosed() {
  try {
    if (readlinkSync('/proc/self/fd/1') !== '/dev/null') return false
    const [, flags = '0'] = /flags:\s*(\d+)/.exec(readFileSync('/proc/self/fdinfo/1', 'utf8')) ?? []
    const parent = readFileSync(`/proc/${process.ppid}/comm`, 'utf8').trim()
    return (Number.parseInt(flags, 8) & 3) === 2 && /^-?(ba|da|z|k|mk|fi|a)?sh$/.test(parent) && !isParentSilent()
  } catch {
    return false
  }
}

function isParentSilent() {
  try {
    return readlinkSync(`/proc/${process.ppid}/fd/1`) === '/dev/null'
  } catch (error) {
    return error.code !== 'ENOENT'
  }
}

// A shell that completes a word asks with every key: it is answered without oclif, which takes longer to load.
if (isCompletion) {
  const {answerShell} = await import('../dist/lib/cli/completion/main.js')
  await answerShell(process.argv.slice(3), new URL('../oclif.manifest.json', import.meta.url))
  process.exit()
}

// The first page of the help needs no oclif either.
const [word, ...more] = process.argv.slice(2)
if (more.length === 0 && [undefined, 'help', '--help', '-h'].includes(word)) {
  const {showRootHelp} = await import('../dist/lib/cli/help/root-help.js')
  await showRootHelp()
} else {
  // Dynamic, because everything above has to happen before oclif loads.
  const {runCommandLine} = await import('../dist/lib/cli/main.js')
  await runCommandLine(import.meta.url)
}
