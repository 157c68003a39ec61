import type {Listing} from '../output/listing.js'
import type {ConfigShowResult} from '../output/results.js'
import {factLines} from '../output/text-table.js'
import {SETTING_KEYS} from './setting-rules.js'
import {PROJECT_FILE, type Setting, type SettingSource, type Settings, type SettingsFiles} from './settings.js'

const SOURCES: Readonly<Record<SettingSource, string>> = {
  flag: 'flag',
  environment: 'variable',
  project: 'project file',
  user: 'user file',
  aws: 'AWS variable',
  default: 'default',
}

export function settingsListing(settings: Settings): Listing<Setting> {
  return {
    rows: SETTING_KEYS.map(key => settings[key]),
    columns: [
      {name: 'setting', value: ({key}) => key},
      {name: 'value', value: ({value}) => value},
      {name: 'source', value: ({source}) => SOURCES[source], raw: ({source}) => source},
      {name: 'from', value: ({from}) => from},
    ],
    empty: '',
  }
}

export function settingsFileLines({project, user}: SettingsFiles, folder: string, userPath: string): string[] {
  return factLines('Files', {
    project: project?.path ?? `no ${PROJECT_FILE} in ${folder} or above`,
    user: user?.path ?? `no ${userPath}`,
  })
}

export function settingsJson(settings: Settings, {project, user}: SettingsFiles): ConfigShowResult {
  return {
    settings: SETTING_KEYS.map(key => {
      const {value = null, source, from = null} = settings[key]
      return {key, value, source, from}
    }),
    files: {project: project?.path ?? null, user: user?.path ?? null},
  }
}
