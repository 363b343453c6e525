#!/bin/bash
set -e
cd /app
echo engine >> record.txt
echo knife > index.txt
