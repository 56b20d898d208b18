"""Multipart uploads: how one big object is sent. Source: schemas/SPEC.md#store

For digest-addressed objects alone: whoever races writes the same bytes, so it does no harm that several
servers check no condition, or check it without a lock, when an upload completes. Each attempt is a new
upload. One whose completion was refused is aborted; any other is left, because its completion may still
be on its way.
"""

from contextlib import suppress
from typing import Any

from shardrel.errors import UnavailableError
from shardrel.store.s3_answers import Answer, Meaning
from shardrel.store.s3_requests import S3Requests

_MOST_PARTS = 10_000


def upload(requests: S3Requests, key: str, data: bytes | memoryview, stamps: dict[str, str]) -> Answer:
    """Send the parts and complete the upload under ``If-None-Match: *``, once.

    Returns:
        What the store said of the completion. Success is reported as silence, so that the caller reads back
        what is there: a completion can fail after its status line, and some servers give no ETag with it.

    Effects: one multipart upload; a crash leaves its parts, which cost space and are never visible.
    """
    begun = requests.ask(lambda: requests.call("create_multipart_upload", Key=key, Metadata=stamps))
    if isinstance(begun, Answer):
        return _harmless(begun)
    upload_id = begun["UploadId"]
    parts = _send(requests, key, upload_id, memoryview(data).cast("B"))
    if isinstance(parts, Answer):
        return _harmless(parts)
    reply = requests.call(
        "complete_multipart_upload", Key=key, UploadId=upload_id, MultipartUpload={"Parts": parts}, IfNoneMatch="*"
    )
    if not isinstance(reply, Answer):
        return Answer(meaning=Meaning.SILENT, status=200, code="Completed")
    if reply.meaning is Meaning.REFUSED:
        _abort(requests, key, upload_id)
    return reply


def _send(requests: S3Requests, key: str, upload_id: str, data: memoryview) -> list[dict[str, Any]] | Answer:
    size = max(requests.settings.part_bytes, -(-len(data) // _MOST_PARTS))
    parts: list[dict[str, Any]] = []
    for number, start in enumerate(range(0, len(data), size), 1):
        body = bytes(data[start : start + size])
        # A part may be sent again: the last one under its number counts, and all have the same bytes.
        reply = requests.ask(
            lambda body=body, number=number: requests.call(  # type: ignore[misc]
                "upload_part", Key=key, UploadId=upload_id, PartNumber=number, Body=body
            )
        )
        if isinstance(reply, Answer):
            return reply
        parts.append({"ETag": reply["ETag"], "PartNumber": number})
    return parts


def _harmless(answer: Answer) -> Answer:
    """Before its completion an upload shows nothing: what was not answered did not create the object."""
    if answer.meaning in (Meaning.SILENT, Meaning.ABSENT):
        return Answer(meaning=Meaning.NOT_SENT, status=answer.status, code=answer.code)
    return answer


def _abort(requests: S3Requests, key: str, upload_id: str) -> None:
    with suppress(UnavailableError):
        requests.call("abort_multipart_upload", Key=key, UploadId=upload_id)


def open_uploads(requests: S3Requests, prefix: str) -> int | Answer:
    """How many uploads below a prefix are open, up to the first thousand."""
    page = requests.ask(lambda: requests.call("list_multipart_uploads", Prefix=prefix))
    return page if isinstance(page, Answer) else len(page.get("Uploads", ()))
