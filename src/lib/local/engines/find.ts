import {InvalidInput, ZaelError} from '../../core/errors.js'
import {docker, dynamodbLocal} from './dynamodb-local.js'
import {dynoxide} from './dynoxide.js'
import type {EngineKind, EngineName, LocatedEngine} from './kind.js'

/** In order of preference. */
export const ENGINE_KINDS: readonly EngineKind[] = [dynoxide, dynamodbLocal, docker]

export async function findEngines(): Promise<{name: EngineName; problem: ZaelError | undefined}[]> {
  return Promise.all(
    ENGINE_KINDS.map(async kind => {
      const found = await tryLocate(kind)
      return {name: kind.name, problem: found instanceof ZaelError ? found : undefined}
    }),
  )
}

export async function pickEngine(
  name: EngineName | undefined,
  candidates: readonly EngineKind[] = ENGINE_KINDS,
): Promise<LocatedEngine & {kind: EngineKind}> {
  if (name !== undefined) {
    const kind = ENGINE_KINDS.find(each => each.name === name)
    if (kind === undefined) {
      throw new InvalidInput('engine.unknown', `Unknown engine "${name}".`, {
        hint: `Choose one of: ${ENGINE_KINDS.map(each => each.name).join(', ')}.`,
      })
    }
    return {kind, ...(await kind.locate())}
  }
  const problems: ZaelError[] = []
  for (const kind of candidates) {
    const found = await tryLocate(kind)
    if (!(found instanceof ZaelError)) return {kind, ...found}
    problems.push(found)
  }
  const reasons = problems.map(({message}) => message).join('; ')
  throw new ZaelError('failed', 'engine.missing', `No DynamoDB engine can run on this machine: ${reasons}`, {
    hint: problems.map(({hint}) => hint).join(' Or: '),
  })
}

async function tryLocate(kind: EngineKind): Promise<LocatedEngine | ZaelError> {
  try {
    return await kind.locate()
  } catch (error) {
    if (error instanceof ZaelError) return error
    throw error
  }
}
