// oclif loads hooks by path and without vitest, which has the sources: this leads back to them.
export default function commandNotFound(options) {
  return globalThis.zaelSources.commandNotFound.call(this, options)
}
