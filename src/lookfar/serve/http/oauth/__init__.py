"""Sign-in with an external issuer: ``lookfar serve`` as an OAuth 2.1 resource server."""
