import {plainLine} from '../cli/output/paint.js'
import type {NamespaceRepository} from '../repository/repository.js'
import {type Table, untilAborted} from '../repository/table/table.js'
import type {WhySource} from './model/model.js'

/** What `zael why` says about a bucket of the live view; loaded on first use. `where`: flags for suggested commands. */
export function whySource(repository: NamespaceRepository, table: Table, where: string): WhySource {
  return async ({entity, resource}, signal) => {
    const [{explain}, {whyLines}, {NamespaceRepository: Namespace}] = await Promise.all([
      import('../insight/why/explain.js'),
      import('../cli/acquire/why-presenter.js'),
      import('../repository/repository.js'),
    ])
    // As stored now: a new one has no cache, and its requests end with the signal.
    const bound = untilAborted({...table, namespace: repository.id}, signal)
    const explanation = await explain(new Namespace(bound, undefined), {entity, resource}, table.clock)
    return whyLines(explanation, where).map(plainLine)
  }
}
