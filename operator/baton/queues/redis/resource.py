"""spec.source.redis of a PartitionedQueue."""

from typing import Annotated

from pydantic import ConfigDict, Field

from baton.queues.redis.url import EXAMPLES, FORMS, OPTIONS
from baton.schema.shape import SecretKey, SourceFields, rule, rules

_FORM = "|".join(f"{kind.replace('+', '[+]')}://{form}" for kind, form in FORMS.items()).replace("\\", "\\\\")
"""The part of a URL after redis or rediss, as a regular expression in CEL."""
_OPTION = f"({'|'.join(f'{name}={option.form}' for name, option in OPTIONS.items())})"


class UrlKey(SecretKey):
    """A key of a Secret in the queue's namespace."""

    key: Annotated[str, Field(min_length=1, max_length=253)] = "url"
    """The key in the Secret."""


class RedisSource(SourceFields):
    """A queue on Redis streams, created by Baton. The server itself rejects stale owners."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.url) != has(self.urlSecretRef)",
                "spec.source.redis: give exactly one of url and urlSecretRef",
                reason="FieldValueInvalid",
            ),
            rule(
                "!has(self.url) || !(self.url.contains('@') || self.url.matches('[?&](username|password|ssl_password)='))",
                "spec.source.redis.url holds a user or a password: put the URL into a Secret and name it in "
                "spec.source.redis.urlSecretRef",
                field=".url",
                reason="FieldValueForbidden",
            ),
        )
    )

    url: (
        Annotated[
            str,
            Field(
                max_length=2048,
                json_schema_extra=rules(
                    rule(
                        f"self.contains('@') || self.matches('^rediss?({_FORM})([?].*)?$')",
                        f"spec.source.redis.url is not a Redis URL: write {'; or '.join(EXAMPLES.values())}",
                        reason="FieldValueInvalid",
                    ),
                    rule(
                        "!self.contains('?') || self.matches('[?&](username|password|ssl_password)=') || "
                        f"self.matches('^[^?]*[?]{_OPTION}(&{_OPTION})*$')",
                        "spec.source.redis.url has an unknown option or an invalid value. The options are "
                        f"{', '.join(OPTIONS)}; db and health_check_interval are numbers, as in ?db=1",
                        reason="FieldValueInvalid",
                    ),
                    rule(
                        "!self.matches('^redis(://|[+]).*[?&]ssl_')",
                        "spec.source.redis.url has an option for TLS: begin it with rediss://",
                        reason="FieldValueInvalid",
                    ),
                    rule(
                        "!self.matches('^rediss?(|[+]cluster)://.*[?&]sentinel_')",
                        "spec.source.redis.url has an option for Sentinels: begin it with redis+sentinel://",
                        reason="FieldValueInvalid",
                    ),
                    rule(
                        "!self.matches('^rediss?[+]cluster://.*[?&]db=')",
                        "spec.source.redis.url has the option db, but a Redis Cluster has only database 0: remove the option",
                        reason="FieldValueInvalid",
                    ),
                ),
            ),
        ]
        | None
    ) = None
    """A server, redis://redis.shop:6379/0 (rediss:// for TLS); Sentinels, redis+sentinel://sentinel.shop:26379/primary-name/0; or
    a Redis Cluster, redis+cluster://redis.shop:6379. The last two take several hosts between commas. Put a URL with a user or
    password into a Secret, see urlSecretRef."""
    url_secret_ref: UrlKey | None = None
    """A Secret with the URL, read for every new connection, so the password may change."""
