import {homedir} from 'node:os'
import {join} from 'node:path'
import {describe, expect, it} from 'vitest'
import {findStateDir} from '../../../src/lib/local/state-dir/state.js'

describe('the state directory of the local stack', () => {
  it.skipIf(process.platform === 'win32').each([
    {env: {ZAEL_DATA_DIR: '/a', XDG_DATA_HOME: '/b', HOME: '/c'}, folder: '/a/local'},
    {env: {XDG_DATA_HOME: '/b', HOME: '/c'}, folder: '/b/zael/local'},
    {env: {XDG_DATA_HOME: 'relative', HOME: '/c'}, folder: '/c/.local/share/zael/local'},
    {env: {XDG_DATA_HOME: '', ZAEL_DATA_DIR: '', HOME: '/c'}, folder: '/c/.local/share/zael/local'},
    {env: {}, folder: join(homedir(), '.local/share/zael/local')},
  ])('$env: $folder', ({env, folder}) => {
    const stateDir = findStateDir(env)
    expect(stateDir.folder).toBe(folder)
    for (const path of [stateDir.stateFile, stateDir.lockFile, stateDir.logFile, stateDir.dataDir])
      expect(path).toContain(`${folder}/`)
  })
})
