// A real OpenID Connect provider on loopback, whose user agrees to everything.
//
// Takes one JSON object as its argument: port, the private keys, the resources with their scopes,
// where its known client is called back, and by how many seconds its clock is behind. Prints "ready" when it listens.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const given = JSON.parse(process.argv[2]);
if (given.behind) {
  const now = Date.now;
  Date.now = () => now() - given.behind * 1000;
}
const require = createRequire(`${given.modules}/`);
const { default: Provider } = await import(pathToFileURL(require.resolve("oidc-provider")));

const provider = new Provider(`http://127.0.0.1:${given.port}`, {
  jwks: { keys: given.keys },
  cookies: { keys: ["only-for-tests"] },
  scopes: ["openid", "offline_access", ...Object.values(given.resources).flatMap((s) => s.split(" "))],
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  clients: [
    {
      client_id: "agent",
      application_type: "native",
      token_endpoint_auth_method: "none",
      redirect_uris: [given.callback],
      id_token_signed_response_alg: given.keys[0].alg,
    },
    {
      client_id: "robot",
      client_secret: "robot-secret",
      id_token_signed_response_alg: given.keys[0].alg,
      grant_types: ["client_credentials"],
      redirect_uris: [],
      response_types: [],
    },
  ],
  clientAuthMethods: ["none", "client_secret_basic", "client_secret_post"],
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => ({
        scope: given.resources[resource] ?? "",
        audience: resource,
        accessTokenFormat: "jwt",
        accessTokenTTL: 300,
        jwt: { sign: { alg: given.keys[0].alg, kid: given.keys[0].kid } },
      }),
    },
  },
});

provider.use(async (ctx, next) => {
  if (!ctx.path.startsWith("/interaction/")) return next();
  const { prompt, params, session } = await provider.interactionDetails(ctx.req, ctx.res);
  let result = { login: { accountId: "ana" } };
  if (prompt.name === "consent") {
    const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    // Scopes that clients register with are scopes of the provider, too.
    grant.addOIDCScope(`openid offline_access ${params.scope}`);
    grant.addResourceScope(params.resource, params.scope);
    result = { consent: { grantId: await grant.save() } };
  }
  ctx.redirect(await provider.interactionResult(ctx.req, ctx.res, result));
});

provider.listen(given.port, "127.0.0.1", () => console.log("ready"));
