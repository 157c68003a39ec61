import {parametersOf, STACK_OPTIONS, type StackOptionValues} from './options.js'

/** The requested projection as DynamoDB spells it; `undefined` when none is requested. */
export function requestedResourceIndex({resourceIndex}: StackOptionValues): 'KEYS_ONLY' | 'ALL' | undefined {
  if (resourceIndex === undefined) return undefined
  return parametersOf({resourceIndex}).ResourceIndexProjection === 'ALL' ? 'ALL' : 'KEYS_ONLY'
}

/** The value of `--resource-index` for a projection of DynamoDB. */
export function resourceIndexOption(projection: string): string {
  const {spelled = {}} = STACK_OPTIONS.find(({name}) => name === 'resourceIndex') ?? {}
  return Object.entries(spelled).find(([, parameter]) => parameter === projection)?.[0] ?? projection
}
