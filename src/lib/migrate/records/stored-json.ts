import {z} from 'zod'

export const storedJson = z.string('expected text').transform((text, context): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    context.addIssue(text === '' ? 'it is empty' : 'it is not JSON')
    return z.NEVER
  }
})
