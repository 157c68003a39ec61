import {describe, expect, it} from 'vitest'
import {parseLambdaSettings} from '../../src/lib/aggregator/environment.js'
import {InvalidInput} from '../../src/lib/core/errors.js'

describe('settings of the Lambda function', () => {
  it('have defaults for everything but the table', () => {
    expect(parseLambdaSettings({TABLE_NAME: 'prod'})).toEqual({
      tableName: 'prod',
      windows: ['hourly', 'daily', 'monthly'],
      retentionDays: 90,
      maxShards: 32,
      archiveBucket: undefined,
    })
  })

  it('are read from the environment', () => {
    const env = {
      TABLE_NAME: 'prod',
      SNAPSHOT_WINDOWS: ' monthly, hourly',
      SNAPSHOT_TTL_DAYS: '0',
      ENABLE_ARCHIVAL: 'true',
      ARCHIVE_BUCKET_NAME: 'archive',
    }
    expect(parseLambdaSettings(env)).toMatchObject({
      windows: ['hourly', 'monthly'],
      retentionDays: 0,
      archiveBucket: 'archive',
    })
  })

  it('have no archive bucket if archival is off', () => {
    expect(parseLambdaSettings({TABLE_NAME: 'prod', ARCHIVE_BUCKET_NAME: 'archive'}).archiveBucket).toBeUndefined()
  })

  it.each([
    [{}, 'TABLE_NAME is not set'],
    [{TABLE_NAME: ' '}, 'TABLE_NAME is not set'],
    [{TABLE_NAME: 'prod', SNAPSHOT_WINDOWS: 'weekly'}, 'SNAPSHOT_WINDOWS is "weekly"'],
    [{TABLE_NAME: 'prod', SNAPSHOT_WINDOWS: 'hourly,'}, 'SNAPSHOT_WINDOWS is "hourly,"'],
    [{TABLE_NAME: 'prod', SNAPSHOT_TTL_DAYS: '-1'}, 'SNAPSHOT_TTL_DAYS is "-1"'],
    [{TABLE_NAME: 'prod', SNAPSHOT_TTL_DAYS: '1.5'}, 'SNAPSHOT_TTL_DAYS is "1.5"'],
    [{TABLE_NAME: 'prod', ENABLE_ARCHIVAL: 'yes'}, 'ENABLE_ARCHIVAL is "yes"; it must be true or false'],
    [{TABLE_NAME: 'prod', ENABLE_ARCHIVAL: 'true'}, 'ARCHIVE_BUCKET_NAME is not set'],
  ])('are rejected if invalid: %j', (env, message) => {
    expect(() => parseLambdaSettings(env)).toThrow(InvalidInput)
    expect(() => parseLambdaSettings(env)).toThrow(message)
  })

  it('are rejected with all problems at once, including invalid combinations', () => {
    const env = {SNAPSHOT_WINDOWS: 'weekly', SNAPSHOT_TTL_DAYS: '1e9', ENABLE_ARCHIVAL: 'true'}
    expect(() => parseLambdaSettings(env)).toThrow(
      expect.objectContaining({
        message:
          'TABLE_NAME is not set; it must be the name of the table. ' +
          'SNAPSHOT_WINDOWS is "weekly"; it must be some of hourly, daily, monthly, separated by commas. ' +
          'SNAPSHOT_TTL_DAYS is "1e9"; it must be a number of days, or 0 for no expiry. ' +
          'ARCHIVE_BUCKET_NAME is not set; it must be the name of a bucket, because ENABLE_ARCHIVAL is true.',
        hint: 'Set TABLE_NAME and SNAPSHOT_WINDOWS and SNAPSHOT_TTL_DAYS and ARCHIVE_BUCKET_NAME in the environment of the function.',
      }),
    )
  })

  it('ignore other variables of the environment, and never print them', () => {
    const env = {AWS_SECRET_ACCESS_KEY: 'hidden', TABLE_NAME: 'prod', SNAPSHOT_TTL_DAYS: 'x'}
    expect(() => parseLambdaSettings(env)).toThrow(expect.not.objectContaining({message: /hidden/}))
  })
})
