"""The logs of whole log directories, managed as a broker manages them."""
