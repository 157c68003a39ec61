import type {BucketName} from './options.js'

/** Names that were warned of; beyond this many, new ones are not: they may come from users of the service. */
const MOST_WARNINGS = 1000

const warned = new Set<string>()

/** Warns of limits that were asked for and are not configured; each name once per process, by `process.emitWarning`. */
export function warnUnlimited(names: readonly string[], {entity, resource}: BucketName): void {
  for (const name of names) {
    if (warned.has(name) || warned.size >= MOST_WARNINGS) continue
    warned.add(name)
    process.emitWarning(
      `No limit "${name}" applies to ${entity} for ${resource}, so it is not limited. Said once per name; strict: true throws instead.`,
      {type: 'ZaelWarning', code: 'ZAEL_UNLIMITED'},
    )
  }
}
