#!/bin/bash
set -e
cd /app
echo iron > item.txt
echo mirror > notes.txt
echo fish > copy.txt
