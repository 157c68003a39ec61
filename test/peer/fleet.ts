import {afterAll, beforeAll} from 'vitest'
import {type PeerScene, usePeers} from './peers.js'
import {type PythonClient, PythonProcess, type Release} from './python-client.js'

export const CHILDREN: readonly string[] = ['key-1', 'key-2', 'key-3']

export const sum = (numbers: Iterable<number>): number => [...numbers].reduce((total, each) => total + each, 0)

/** A namespace opened by two Python processes: a parent `org` over {@link CHILDREN}, which charge it too. */
export interface Family {
  readonly scene: PeerScene
  readonly clients: readonly PythonClient[]
}

/** Two Python processes and two limiters of zael, for the tests of one `describe`. */
export function useFleet(release: Release): Fleet {
  return new Fleet(usePeers(release))
}

class Fleet {
  #second: PythonProcess | undefined

  constructor(readonly peers: ReturnType<typeof usePeers>) {
    beforeAll(() => {
      this.#second = new PythonProcess(peers.release)
    })
    afterAll(() => this.#second?.[Symbol.asyncDispose]())
  }

  /** A family with limits of `gpt` for each child and for the parent. */
  async family(child: object, parent: object): Promise<Family> {
    const {peers} = this
    const scene = await (peers.release === '0.17' ? peers.currentScene() : peers.scene())
    const {client} = scene
    await client.repository('create_entity', {entity_id: 'org'})
    for (const entity of CHILDREN)
      await client.repository('create_entity', {entity_id: entity, parent_id: 'org', cascade: true})
    await client.repository('set_resource_defaults', {resource: 'gpt', limits: [child]})
    await client.repository('set_limits', {entity_id: 'org', resource: 'gpt', limits: [parent]})
    const second = this.#second as PythonProcess
    await second.setClock(scene.nowMs)
    return {scene, clients: [client, await second.open(peers.table.name, client.namespace)]}
  }

  /**
   * All four ask for every child at once, `each` times; resolves to what was admitted per child. The second Python
   * process may be behind the others, in ms.
   */
  async race({scene, clients}: Family, name: string, each: number, behindMs = 0): Promise<Map<string, number>> {
    await this.#second?.setClock(scene.nowMs - behindMs)
    const consume = {[name]: 1}
    const admitted = new Map(CHILDREN.map(entity => [entity, 0]))
    await Promise.all(
      CHILDREN.flatMap(entity => {
        const python = clients.map(client => client.acquire(entity, 'gpt', consume, {times: each, concurrency: 3}))
        const zael = [0, 1].map(() => scene.ask(entity, 'gpt', consume, each))
        return [...python, ...zael].map(async asked => {
          const answer = await asked
          admitted.set(entity, (admitted.get(entity) ?? 0) + answer.admitted)
        })
      }),
    )
    return admitted
  }
}
