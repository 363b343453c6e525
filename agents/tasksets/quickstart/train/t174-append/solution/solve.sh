#!/bin/bash
set -e
cd /app
echo yellow >> record.txt
echo valley > out.txt
