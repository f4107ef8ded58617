// What pages and Node.js programs call a host with: fetch.
//
//     node fetch_client.mjs URL TOKEN
//
// Prints a JSON list of what worked; ends with the first thing that did not.
const [url, token] = process.argv.slice(2)
const worked = []
const known = { authorization: `Bearer ${token}` }

function must(holds, what) {
  if (!holds) throw new Error(what)
}

function post(path, body, headers = {}) {
  return fetch(url + path, { method: "POST", headers: { ...known, ...headers }, body })
}

const row = { name: "x", datatype: "FP32", shape: [1, 128], data: Array(128).fill(0.5) }
const json = JSON.stringify({ inputs: [row] })

const answer = await post("/v2/models/acme.mlp/infer", json) // fetch says that a string is text/plain
must(answer.status === 200, `status ${answer.status}`)
const output = (await answer.json()).outputs[0]
must(output.data.length === 10, "ten values")
worked.push("infer")

const head = new TextEncoder().encode(
  JSON.stringify({
    inputs: [{ name: "x", datatype: "FP32", shape: [1, 128], parameters: { binary_data_size: 512 } }],
    parameters: { binary_data_output: true },
  }),
)
const body = new Blob([head, new Float32Array(row.data)])
const binary = await post("/v2/models/acme.mlp/infer", body, { "inference-header-content-length": String(head.length) })
const bytes = await binary.arrayBuffer()
const values = new Float32Array(bytes.slice(Number(binary.headers.get("inference-header-content-length"))))
must(output.data.every((value, i) => Math.abs(value - values[i]) < 1e-6), "the same values in binary")
worked.push("binary")

const all = await Promise.all(Array.from({ length: 50 }, () => post("/v2/models/acme.mlp/infer", json)))
must((await Promise.all(all.map((each) => each.json()))).every((each) => each.outputs[0].data.length === 10), "50 answers")
worked.push("many at once")

const refused = await post("/v2/models/none/infer", json)
must(refused.status === 404 && (await refused.json()).code === "model_unknown", "an unknown model is refused")
worked.push("refused")

const stream = await post("/v2/models/acme.text/generate_stream", JSON.stringify({ x: ["hello"] }))
must(stream.headers.get("content-type").startsWith("text/event-stream"), "events")
let text = ""
for await (const piece of stream.body.pipeThrough(new TextDecoderStream())) text += piece
must(text.startsWith("data: ") && JSON.parse(text.slice(6)).y === "hello", text)
worked.push("streamed")

console.log(JSON.stringify(worked))
