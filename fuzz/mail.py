"""Mail and mailboxes to Markdown: a byte that chooses, then the bytes of a file.

Takes: the bytes of a file. Gives: the extracted text. Refuses: with ``CannotExtract``.
"""

from __future__ import annotations

from fuzz.extracting import target_for

TARGET = target_for(
    "a.eml", "a.mbox",
    words=(
        "From a@b Mon\n", "Subject: x\n", "\n\n", "From: =?utf-8?b?4oKs?=\n", "=?x?q?=41?=",
        "Content-Type: multipart/mixed; boundary=b\n", "--b\n", "--b--\n", "text/html",
        "Content-Type: multipart/alternative; boundary=c\n", "--c\n", "message/rfc822",
        "Content-Transfer-Encoding: base64\n", "Content-Transfer-Encoding: quoted-printable\n",
        'Content-Disposition: attachment; filename="a.csv"\n', "filename*=utf-8''a%2ehtml",
        "charset=utf-7", "charset=base64", "charset=shift_jis", "<p>x", "=41=\n", "QUJD\n",
        ">From ", "uuencode", "begin 644 a\n", "\r\n", "\0", "\xff", "name*0=a; name*1=b",
    ),
)  # fmt: skip
