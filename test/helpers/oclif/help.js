// oclif loads its help class by path and without vitest, which has the sources: this leads back to them.
export default function Help(...args) {
  return new globalThis.zaelSources.Help(...args)
}
