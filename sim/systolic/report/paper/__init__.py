"""The paper of pictures: pages, style, lettering, PNG files."""
