import {option, string} from '@oclif/core/flags'
import type {Window} from '../../core/window.js'
import {timeFlags} from '../flags/time-range.js'

const WINDOW_TYPES: readonly Window[] = ['hourly', 'daily', 'monthly']

export const usageFlags = {
  ...timeFlags,
  resource: string({char: 'r', description: 'Only usage of this resource.', helpValue: 'RESOURCE'}),
  window: option({
    char: 'w',
    options: WINDOW_TYPES,
    default: 'hourly' as const,
    description: 'Length of a usage window.',
  })(),
}
