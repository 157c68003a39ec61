import {expect, it} from 'vitest'
import {parseTemplate} from '../../src/lib/files/template-yaml.js'

it('reads short forms of functions as their long forms, also nested', () => {
  const text = `
a: !Ref Name
b: !GetAtt Table.Arn
c: !Sub "\${AWS::StackName}-x"
d: !Sub
  - "\${one}"
  - one: !Select [0, !Split [":", !Ref Name]]
e: !If [Large, {size: !Ref Size}, !Ref AWS::NoValue]
f: !And [!Not [!Equals [!Ref Name, ""]], !Or [{ Condition: Large }, { Condition: Small }]]
g: [plain, 1, true]
`
  expect(parseTemplate(text)).toEqual({
    a: {Ref: 'Name'},
    b: {'Fn::GetAtt': 'Table.Arn'},
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a variable of CloudFormation
    c: {'Fn::Sub': '${AWS::StackName}-x'},
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a variable of CloudFormation
    d: {'Fn::Sub': ['${one}', {one: {'Fn::Select': [0, {'Fn::Split': [':', {Ref: 'Name'}]}]}}]},
    e: {'Fn::If': ['Large', {size: {Ref: 'Size'}}, {Ref: 'AWS::NoValue'}]},
    f: {
      'Fn::And': [
        {'Fn::Not': [{'Fn::Equals': [{Ref: 'Name'}, '']}]},
        {'Fn::Or': [{Condition: 'Large'}, {Condition: 'Small'}]},
      ],
    },
    g: ['plain', 1, true],
  })
})
