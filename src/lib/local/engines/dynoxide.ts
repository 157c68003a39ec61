import {access, constants} from 'node:fs/promises'
import {createRequire} from 'node:module'
import {dirname, join} from 'node:path'
import {ZaelError} from '../../core/errors.js'
import {prepareDatabase} from './dynoxide-database.js'
import type {EngineKind, LocatedEngine} from './kind.js'

/** Each has a package that is an optional dependency of zael; npm installs the one that fits. */
const PLATFORMS = ['darwin-arm64', 'darwin-x64', 'linux-arm64', 'linux-x64', 'win32-x64']
const DATA_FILE = 'dynoxide.db'

export const dynoxide: EngineKind = {
  name: 'dynoxide',
  announcement: 'listening on',
  dataFile: DATA_FILE,
  prepare: dataDir => prepareDatabase(join(dataDir, DATA_FILE)),
  async locate(): Promise<LocatedEngine> {
    const {binary, version} = await findBinary()
    return {
      version,
      command: (port, dataDir) => [
        binary,
        'serve',
        '--host',
        '127.0.0.1',
        '--port',
        String(port),
        ...(dataDir === undefined ? [] : ['--db-path', join(dataDir, DATA_FILE)]),
      ],
    }
  },
}

export async function findBinary(
  {platform, arch}: {platform: string; arch: string} = process,
  from: string = import.meta.url,
): Promise<{binary: string; version: string}> {
  if (!PLATFORMS.includes(`${platform}-${arch}`)) {
    throw new ZaelError('failed', 'engine.missing', `dynoxide is not built for ${platform} on ${arch}`, {
      hint: 'Use the engine dynamodb-local, which needs a Java 17 development kit.',
    })
  }
  const name = `@dynoxide/${platform}-${arch}`
  try {
    const require = createRequire(from)
    const description = `${name}/package.json`
    const binary = join(dirname(require.resolve(description)), platform === 'win32' ? 'dynoxide.exe' : 'dynoxide')
    await access(binary, constants.X_OK)
    return {binary, version: require(description).version}
  } catch (cause) {
    throw new ZaelError('failed', 'engine.missing', `dynoxide is not installed: no executable in ${name}`, {
      hint: `Install it with \`npm install ${name}\`, or without \`--omit=optional\`.`,
      cause,
    })
  }
}
