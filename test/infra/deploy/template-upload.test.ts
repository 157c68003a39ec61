import {expect, it} from 'vitest'
import {openAws} from '../../../src/lib/infra/aws/clients.js'
import {checkTemplateLength, MAX_INLINE_BYTES, passTemplate} from '../../../src/lib/infra/deploy/template-upload.js'

const LONG = 'x'.repeat(MAX_INLINE_BYTES + 1)

it('a template that is too long for a request needs a bucket', () => {
  expect(() => checkTemplateLength(LONG.slice(1), undefined)).not.toThrow()
  expect(() => checkTemplateLength(LONG, 'templates')).not.toThrow()
  expect(() => checkTemplateLength(LONG, undefined)).toThrow(
    expect.objectContaining({
      kind: 'usage',
      code: 'deploy.template-length',
      message: 'The template has 51201 bytes, but CloudFormation accepts only 51200 in a request.',
      hint: expect.stringContaining('--template-bucket NAME'),
    }),
  )
  // Bytes count, not characters.
  expect(() => checkTemplateLength('ä'.repeat(MAX_INLINE_BYTES - 1), undefined)).toThrow('102398 bytes')
})

/** Passes a template with a bucket that responds like this. */
async function passedTo(region: string, respond: () => unknown) {
  using aws = openAws({region}, {AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b'})
  const sent: object[] = []
  const s3 = await aws.s3()
  s3.send = async (command: {input: object}) => {
    sent.push(command.input)
    return respond()
  }
  const source = await passTemplate(aws, {stack: 'prod', template: 'Resources: {}', bucket: 'templates'})
  return {source, sent}
}

it.each([
  ['eu-west-1', 'https://templates.s3.eu-west-1.amazonaws.com'],
  ['us-east-1', 'https://templates.s3.us-east-1.amazonaws.com'],
  ['cn-north-1', 'https://templates.s3.cn-north-1.amazonaws.com.cn'],
])('is uploaded under its hash, and named by the address of the bucket: %s', async (region, address) => {
  const {source, sent} = await passedTo(region, () => ({}))
  const [upload] = sent as [{Key: string}]
  expect(upload).toMatchObject({Bucket: 'templates', Body: 'Resources: {}'})
  expect(upload.Key).toMatch(/^zael\/prod\/[0-9a-f]{16}\.yaml$/)
  expect(source).toEqual({TemplateURL: `${address}/${upload.Key}`})
})

it.each([
  ['NoSuchBucket', 'The bucket "templates" does not exist.'],
  ['PermanentRedirect', 'The bucket "templates" is in another region.'],
])('explains a bucket that cannot be used: %s', async (name, message) => {
  const refuse = () => {
    throw Object.assign(new Error('no'), {name})
  }
  await expect(passedTo('eu-west-1', refuse)).rejects.toMatchObject({code: 'deploy.template-bucket', message})
})
