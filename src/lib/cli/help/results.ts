import * as z from 'zod'
import {strictObject} from 'zod'
import {listOf, type ResultOf} from '../output/results.js'

const helpEntrySchema = strictObject({
  name: z.string(),
  summary: z.string(),
}).meta({id: 'HelpEntry'})
export type HelpEntryJson = ResultOf<typeof helpEntrySchema>

export const autocompleteResult = strictObject({
  shell: z.enum(['bash', 'zsh', 'fish', 'powershell']),
  script: z.string(),
}).meta({title: 'zael autocomplete'})
export type AutocompleteResult = ResultOf<typeof autocompleteResult>

export const helpResult = z
  .union([
    strictObject({
      name: z.string(),
      version: z.string(),
      summary: z.string(),
      commands: z.array(helpEntrySchema),
      helpTopics: z.array(helpEntrySchema),
    }),
    strictObject({
      name: z.string(),
      summary: z.string(),
      commands: z.array(helpEntrySchema),
    }),
    strictObject({
      name: z.string(),
      summary: z.string(),
      description: z.string().optional(),
      args: listOf({
        name: z.string(),
        description: z.string().optional(),
        required: z.boolean(),
        multiple: z.boolean(),
      }),
      flags: listOf({
        name: z.string(),
        char: z.string().optional(),
        description: z.string().optional(),
        required: z.boolean(),
        takesValue: z.boolean(),
      }),
      examples: listOf({
        command: z.string(),
        description: z.string(),
      }),
    }),
    strictObject({
      name: z.string(),
      summary: z.string(),
      about: z.string(),
      entries: listOf({
        term: z.string(),
        meaning: z.string(),
      }),
    }),
  ])
  .meta({title: 'zael help'})
export type HelpResult = ResultOf<typeof helpResult>

export const versionResult = strictObject({
  version: z.string(),
  platform: z.string(),
  arch: z.string(),
  node: z.string(),
}).meta({title: 'zael version'})
export type VersionResult = ResultOf<typeof versionResult>
