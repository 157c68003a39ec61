import {Writable} from 'node:stream'
import type {NamespaceRepository} from '../../repository/repository.js'

export interface ActionSource {
  readonly namespace: NamespaceRepository
  readonly nowMs: number
  /** Flags for suggested commands, each with a leading space. */
  readonly where: string
}

/** For changes that would draw their progress on stderr: the live view has the whole screen. It is no terminal. */
export const NO_PROGRESS = new Writable({write: (_chunk, _encoding, done) => done()})
