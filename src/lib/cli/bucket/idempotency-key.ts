import {string} from '@oclif/core/flags'

export const idempotencyKey = string({
  description:
    'Name of this change, 1 to 64 letters, digits and . _ : - ; repeated with it within three days, it is applied once.',
  helpValue: 'KEY',
})
