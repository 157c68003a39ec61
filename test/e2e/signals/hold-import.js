// Preloaded into zael: while a module is looked up whose address contains HOLD_IMPORT_OF, the process gets the signal
// HOLD_IMPORT_SIGNAL, and the module is never found.
import {register} from 'node:module'
import process from 'node:process'

export async function resolve(specifier, context, nextResolve) {
  if (!specifier.includes(process.env.HOLD_IMPORT_OF)) return nextResolve(specifier, context)
  process.kill(process.pid, process.env.HOLD_IMPORT_SIGNAL)
  return new Promise(() => setInterval(() => {}, 60_000))
}

// This file is loaded twice: in the main thread, and in the one of the hooks.
if (!process.env.HOLD_IMPORT_IS_HOOK) {
  process.env.HOLD_IMPORT_IS_HOOK = '1'
  register(import.meta.url)
}
