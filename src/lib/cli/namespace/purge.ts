import {ZaelError} from '../../core/errors.js'
import {formatCount, formatSpan} from '../../core/text/text.js'
import type {Namespaces} from '../../repository/namespaces/namespaces.js'
import type {Namespace} from '../../repository/namespaces/states.js'
import type {Removed} from '../../repository/table/kind-counter.js'
import {confirmByName} from '../output/confirm.js'
import {kindCounts} from '../output/kind-counts.js'
import {withProgress} from '../output/progress.js'
import {namespaceTitle} from './presenter.js'

export async function purgeWithProgress(
  namespaces: Namespaces,
  namespace: Namespace,
  consent: {readonly confirm?: string | undefined},
): Promise<Removed> {
  const label = namespace.name || namespace.id
  // May be a little low: an exact count would read the whole table.
  const {total} = kindCounts(await namespaces.countIndexed(namespace.id))
  const what = `This permanently deletes ${formatCount(total)} items of ${namespaceTitle(namespace)}`
  await confirmByName(what, label, {confirm: consent.confirm})

  let removed: Removed = {deleted: 0, byKind: {}}
  return withProgress(
    (line, signal) => {
      const onProgress = (sofar: Removed) => {
        removed = sofar
        line.bar(`Purging "${label}"`, sofar.deleted, total)
      }
      const onWait = (ms: number) => {
        const text = `Waiting ${formatSpan(ms)} until all clients have noticed the deletion`
        line.draw(columns => text.slice(0, columns - 1))
      }
      return namespaces.purge(namespace.id, {signal, onProgress, onWait})
    },
    () => purgeInterrupted(namespace, removed),
  )
}

export function purgeInterrupted(namespace: Namespace, {deleted, byKind}: Removed): ZaelError {
  const {id, name} = namespace
  const message = `Interrupted: at least ${formatCount(deleted)} items of ${namespaceTitle(namespace)} are deleted, the rest remains.`
  return new ZaelError('interrupted', 'namespace.purge-interrupted', message, {
    hint: `Run it again to continue: zael namespace purge ${id} --confirm ${name || id}`,
    details: {id, name, counts: kindCounts(byKind)},
  })
}
