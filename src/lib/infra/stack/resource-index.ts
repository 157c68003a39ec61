import {parametersOf, STACK_OPTIONS, type StackOptionValues} from './options.js'

export function requestedResourceIndex({resourceIndex}: StackOptionValues): 'KEYS_ONLY' | 'ALL' | undefined {
  if (resourceIndex === undefined) return undefined
  return parametersOf({resourceIndex}).ResourceIndexProjection === 'ALL' ? 'ALL' : 'KEYS_ONLY'
}

export function resourceIndexOption(projection: string): string {
  const {spelled = {}} = STACK_OPTIONS.find(({name}) => name === 'resourceIndex') ?? {}
  return Object.entries(spelled).find(([, parameter]) => parameter === projection)?.[0] ?? projection
}
