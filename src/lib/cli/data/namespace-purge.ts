import {ZaelError} from '../../core/errors.js'
import {formatCount} from '../../core/text.js'
import type {Namespaces} from '../../repository/namespaces/namespaces.js'
import type {Namespace} from '../../repository/namespaces/states.js'
import type {Removed} from '../../repository/table/kind-counter.js'
import {confirmByName} from '../output/confirm.js'
import {withProgress} from '../output/progress.js'
import {kindCounts} from './kind-counts.js'
import {namespaceTitle} from './namespace-presenter.js'

/** Purges with consent, shows how far it is, and can be stopped with Ctrl-C. */
export async function purgeWithProgress(
  namespaces: Namespaces,
  namespace: Namespace,
  consent: {readonly confirm?: string | undefined},
): Promise<Removed> {
  // From the index alone, so perhaps a few too low: exact figures would cost a read of the whole table.
  const {total} = kindCounts(await namespaces.countIndexed(namespace.id))
  const what = `This deletes ${formatCount(total)} items of ${namespaceTitle(namespace)} for good`
  await confirmByName(what, namespace.name, {confirm: consent.confirm})

  let removed: Removed = {deleted: 0, byKind: {}}
  return withProgress(
    (line, signal) => {
      const onProgress = (sofar: Removed) => {
        removed = sofar
        line.bar(`Purging "${namespace.name}"`, sofar.deleted, total)
      }
      return namespaces.purge(namespace.id, {signal, onProgress})
    },
    () => purgeInterrupted(namespace, removed),
  )
}

/** What is deleted stays deleted, and what is left waits for the next run. */
export function purgeInterrupted(namespace: Namespace, {deleted, byKind}: Removed): ZaelError {
  const {id, name} = namespace
  const said = `Interrupted: at least ${formatCount(deleted)} items of ${namespaceTitle(namespace)} are deleted, the rest is still there.`
  return new ZaelError('interrupted', 'namespace.purge-interrupted', said, {
    hint: `Run it again to go on: zael namespace purge ${id} --confirm ${name}`,
    details: {id, name, counts: kindCounts(byKind)},
  })
}
