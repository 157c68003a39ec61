import {WINDOWS, type Window} from '../../core/window.js'
import {parameterText} from '../../infra/stack/option.js'
import {STACK_OPTIONS} from '../../infra/stack/options.js'

export interface CostSettings {
  readonly hasAggregator: boolean
  readonly batchSeconds: number
  readonly batchRecords: number
  readonly usageWindows: readonly Window[]
  readonly memoryMb: number
  readonly architecture: 'arm64' | 'x86_64'
  readonly hasAlarms: boolean
  readonly hasDashboard: boolean
}

/** The settings in the parameters of a stack; what it does not have, as on a local engine, is the template's default. */
export function costSettings(parameters: Readonly<Record<string, string>>): CostSettings {
  const text = (name: string): string => {
    const option = STACK_OPTIONS.find(each => each.name === name)
    if (!option) throw new Error(`A stack has no option ${name}`)
    return parameters[option.parameter] ?? parameterText(option, option.default)
  }
  const windows = text('usageWindows').split(',')
  return {
    hasAggregator: text('aggregator') === 'true',
    batchSeconds: Number(text('batchWindow')),
    batchRecords: Number(text('batchSize')),
    usageWindows: WINDOWS.filter(window => windows.includes(window)),
    memoryMb: Number(text('lambdaMemory')),
    architecture: text('lambdaArchitecture') === 'x86_64' ? 'x86_64' : 'arm64',
    hasAlarms: text('alarms') === 'true',
    hasDashboard: text('dashboard') === 'true',
  }
}
